package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	apiv1 "muster/api/v1"
	"muster/internal/kit/lists"
	"muster/internal/kit/shell"
)

func (a *app) ssh() *cobra.Command {
	c := &cobra.Command{
		Use:   "ssh NAME[:NODE] [-- COMMAND…]",
		Short: "Log in to a cluster, or run a command on it",
		Long: `Open an SSH session on a cluster's head, or on the node after the colon. The controller signs a key made for this one
connection and relays the connection: the cluster needs no address of its own, and neither your keys nor your SSH configuration
are used. As with ssh, the words of a command are joined and run by the remote shell, and its exit code is returned.`,
		Example: `  muster ssh hello
  muster ssh hello -- srun -N 3 hostname
  muster ssh hello:n2 -- uptime
  tar c input | muster ssh hello -- tar x`,
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: a.completeFirst(a.clusterNames),
	}
	c.Flags().SetInterspersed(false) // what follows NAME belongs to the remote command
	return a.verb(c, func(ctx context.Context, args []string) error {
		ref, node, _ := strings.Cut(args[0], ":")
		command := args[1:]
		if len(command) > 0 && command[0] == "--" {
			command = command[1:]
		}
		return a.enter(ctx, ref, node, command)
	})
}

// enter runs ssh with a key of its own. It returns the exit code of ssh, which is that of the remote command.
func (a *app) enter(ctx context.Context, ref, node string, command []string) error {
	program, err := exec.LookPath("ssh")
	if err != nil {
		return fmt.Errorf("ssh is not installed: install OpenSSH's client (Debian: apt install openssh-client): %w", err)
	}
	controller, err := a.connect()
	if err != nil {
		return err
	}
	cluster, _, err := apiv1.GetCluster.Call(ctx, a, apiv1.ClusterRef{Cluster: ref})
	if err != nil {
		return err
	}
	if node != "" && cluster.Phase != apiv1.Paused && !slices.ContainsFunc(cluster.Nodes, func(n apiv1.Node) bool {
		return n.Name == node
	}) {
		text := fmt.Sprintf("cluster %s has no node %q (`muster describe %s` lists its nodes)", cluster.Name, node, ref)
		return &problemError{Problem: apiv1.Problem{Code: "not-found", Detail: text}}
	}
	dir, err := os.MkdirTemp("", "muster-ssh-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	certificate, err := credentials(ctx, a, ref, dir)
	if err != nil {
		return err
	}
	if node == "" {
		node = certificate.Head
	}
	self, err := a.self()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	options := sshOptions(dir, certificate.Account, node+"."+cluster.Name, proxyCommand(self, ref, node))
	if len(command) > 0 && a.interactive() {
		options = append(options, "-t")
	}
	run := exec.CommandContext(ctx, program, append(append(options, "--", node), command...)...)
	run.Stdin, run.Stdout, run.Stderr = a.in, a.out.raw(), a.err.raw()
	run.Env = append(os.Environ(), envURL+"="+controller.base.String(), envToken+"="+controller.token)
	run.Cancel = func() error { return run.Process.Signal(syscall.SIGTERM) } // so that it leaves the terminal as it was
	run.WaitDelay = 5 * time.Second
	return outcome(run.Run())
}

// interactive says whether a person sits at both ends.
func (a *app) interactive() bool {
	_, in := terminal(a.in)
	_, out := terminal(a.out)
	return in && out
}

// outcome is the exit code of a program that ran. A signal counts as in a shell.
func outcome(err error) error {
	var ended *exec.ExitError
	if !errors.As(err, &ended) {
		return err
	}
	if status, ok := ended.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return exitCode(128 + int(status.Signal()))
	}
	return exitCode(ended.ExitCode())
}

// The files that credentials writes and ssh reads.
const (
	keyFile        = "id"
	knownHostsFile = "known_hosts"
)

// credentials makes a key, has it certified for a few minutes, and leaves both in dir with whom to trust.
func credentials(ctx context.Context, c apiv1.Client, ref, dir string) (apiv1.Certificate, error) {
	var certificate apiv1.Certificate
	key, err := newLoginKey()
	if err != nil {
		return certificate, err
	}
	in := apiv1.CertifyInput{ClusterRef: apiv1.ClusterRef{Cluster: ref}, Body: apiv1.CertifyBody{PublicKey: key.line}}
	if certificate, _, err = apiv1.Certify.Call(ctx, c, in); err != nil {
		return certificate, err
	}
	err = key.toFile(os.WriteFile, filepath.Join(dir, keyFile), strings.TrimSpace(certificate.Certificate), "muster")
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, knownHostsFile), []byte(believe("*", certificate.HostCA)), 0o600)
	}
	return certificate, err
}

// sshOptions let ssh use what is in dir and nothing else of this host. The node must prove to be alias, a name that only
// its own host certificate has.
func sshOptions(dir, account, alias, proxy string) []string {
	options := []string{"-F", os.DevNull, "-l", account}
	for _, o := range []string{
		"ProxyCommand=" + proxy,
		"IdentityFile=" + filepath.Join(dir, keyFile),
		"CertificateFile=" + certificatePath(filepath.Join(dir, keyFile)),
		"IdentitiesOnly=yes",
		"IdentityAgent=none",
		"UserKnownHostsFile=" + filepath.Join(dir, knownHostsFile),
		"GlobalKnownHostsFile=" + os.DevNull,
		"StrictHostKeyChecking=yes",
		"HostKeyAlias=" + alias,
		"PreferredAuthentications=publickey",
		"ServerAliveInterval=30",
		"LogLevel=ERROR",
	} {
		options = append(options, "-o", o)
	}
	return options
}

// proxyCommand is for the shell that ssh gives it to. ssh expands % in it. The controller and the token are in the
// environment, where other users cannot read them.
func proxyCommand(self, ref, node string) string {
	words := lists.Map([]string{self, "tunnel", "--", ref, node}, shell.Quoted)
	return strings.ReplaceAll(strings.Join(words, " "), "%", "%%")
}
