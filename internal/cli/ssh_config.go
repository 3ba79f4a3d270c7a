package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	apiv1 "muster/api/v1"
	"muster/internal/kit/printable"
)

func (a *app) sshConfig() *cobra.Command {
	c := &cobra.Command{
		Use:   "ssh-config",
		Short: "Print the OpenSSH client configuration for the gateway",
		Long: `Print the lines for ~/.ssh/config with which ssh, scp, sftp, rsync and programs on top of them reach your clusters through the SSH
gateway, and the lines for ~/.ssh/known_hosts that identify it. With --write, write ~/.ssh/muster.conf and
~/.ssh/muster_known_hosts, and include the first in ~/.ssh/config.

Then ` + "`ssh CLUSTER@muster`" + ` is a cluster's head, and ` + "`ssh NODE.CLUSTER.muster`" + ` any of its nodes.`,
		Example: `  muster ssh-config --write
  muster ssh-config`,
		Args: cobra.NoArgs,
	}
	write := c.Flags().Bool("write", false, "write them into ~/.ssh rather than printing them")
	return a.verb(c, func(ctx context.Context, _ []string) error {
		gateway, _, err := apiv1.GetGateway.Call(ctx, a, apiv1.Nothing{})
		if err != nil {
			return err
		}
		if gateway.Address == "" {
			return errors.New("this controller's SSH gateway has no port: an operator gives it one with " +
				"`muster serve --ssh ADDRESS`; `muster ssh` works without one")
		}
		config, known, err := clientConfig(gateway)
		if err != nil {
			return err
		}
		if !*write {
			a.out.text("# ~/.ssh/config\n" + config + "\n# ~/.ssh/" + knownHostsName + "\n" + known)
			return nil
		}
		return a.writeSSH(config, known)
	})
}

// The files of ours in ~/.ssh.
const (
	configName     = "muster.conf"
	knownHostsName = "muster_known_hosts"
)

// clientConfig is the client's configuration, and whom it is to trust. No name of a cluster is trusted outside the zone
// "muster", as people name their clusters as they like.
func clientConfig(g apiv1.Gateway) (config, known string, err error) {
	host, port, err := net.SplitHostPort(g.Address)
	if err != nil {
		return "", "", fmt.Errorf("the gateway's address %q: %w", g.Address, err)
	}
	texts := append(strings.Split(strings.TrimSpace(g.GatewayCA), "\n"), strings.Split(strings.TrimSpace(g.HostCA), "\n")...)
	for _, text := range append(texts, g.Address, g.Account) {
		if printable.Line(text) != text {
			return "", "", fmt.Errorf("the gateway's %q is not one line of text, and would be other lines in a file of ssh's",
				text)
		}
	}
	if word := host + g.Account; strings.ContainsAny(word, " \"#") {
		return "", "", fmt.Errorf("the gateway's address %q or account %q is not one word", g.Address, g.Account)
	}
	config = fmt.Sprintf(`Host muster
  HostName %s
  Port %s
  HostKeyAlias %s
Host *.muster
  ProxyJump muster
  User %s
Host muster *.muster
  UserKnownHostsFile ~/.ssh/%s
  StrictHostKeyChecking yes
  ServerAliveInterval 30
`, host, port, host, g.Account, knownHostsName)
	return config, believe(host, g.GatewayCA) + believe("*.muster", g.HostCA), nil
}

// believe is the lines of known hosts for authorities: one, or two while the site changes it.
func believe(hosts, authorities string) (lines string) {
	for key := range strings.Lines(strings.TrimSpace(authorities)) {
		lines += "@cert-authority " + hosts + " " + strings.TrimSpace(key) + "\n"
	}
	return lines
}

// writeSSH writes both files, and one line into the user's own configuration: at its beginning, as what stands there first
// counts, and below a Host it would belong to that.
func (a *app) writeSSH(config, known string) error {
	home, err := os.UserHomeDir()
	if err != nil {
		return usage("there is no home directory to write to: leave --write out")
	}
	dir := filepath.Join(home, ".ssh")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	for name, text := range map[string]string{configName: config, knownHostsName: known} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			return err
		}
	}
	path, line := filepath.Join(dir, "config"), "Include "+configName+"\n"
	text, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if !strings.Contains(string(text), line) {
		if err := os.WriteFile(path, append([]byte(line), text...), 0o600); err != nil {
			return err
		}
	}
	a.say("`ssh CLUSTER@muster` is a cluster's head now, `ssh NODE.CLUSTER.muster` a node; see %s",
		filepath.Join(dir, configName))
	return nil
}
