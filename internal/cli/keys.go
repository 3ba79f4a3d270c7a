package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	apiv1 "muster/api/v1"
	"muster/internal/kit/publickey"
)

func (a *app) keys() *cobra.Command {
	return group(&cobra.Command{
		Use:   "keys",
		Short: "Manage your SSH keys",
		Long: `SSH keys registered here give you access to all your clusters, present and future, within seconds, at the gateway and on the nodes.
A key belongs to one person. ` + "`muster ssh`" + ` needs none; they are for logging in by other means.`,
		Example: `  muster keys add
  muster keys list`,
	}, a.keysList(), a.keysAdd(), a.keysDelete())
}

func (a *app) keysList() *cobra.Command {
	c := &cobra.Command{
		Use:     "list",
		Short:   "List your SSH keys",
		Long:    `List the SSH keys that are registered as yours.`,
		Example: `  muster keys list`,
		Args:    cobra.NoArgs,
	}
	return listing(a, c, apiv1.ListKeys, &apiv1.Page{}, func(keys []apiv1.Key) {
		t := newTable("FINGERPRINT", "TYPE", "COMMENT", "AGE")
		for _, k := range keys {
			kind, rest, _ := strings.Cut(k.Line, " ")
			_, comment, _ := strings.Cut(rest, " ")
			t.row(k.Fingerprint, kind, comment, age(k.CreatedAt))
		}
		t.print(a.out)
	})
}

func (a *app) keysAdd() *cobra.Command {
	c := &cobra.Command{
		Use:   "add [FILE]",
		Short: "Register an SSH public key",
		Long: `Register a public key as yours. Without FILE it is ~/.ssh/id_ed25519.pub, or else ~/.ssh/id_rsa.pub. ssh-keygen signs
your name with the private key, or the SSH agent that has it, which shows that the key is yours: it may ask for the passphrase, or
for a touch. For a key of another computer, sign there, and give the signature with --proof. Accepted are ed25519,
ecdsa, both also on security keys (sk-…), and RSA of 3072 bits and more.`,
		Example: `  muster keys add
  muster keys add ~/.ssh/work.pub
  muster keys add work.pub --proof work.sig`,
		Args: cobra.MaximumNArgs(1),
	}
	output := formatFlag(c)
	proof := c.Flags().String("proof", "", "`file` with the signature of your name by the key")
	return a.verb(c, func(ctx context.Context, args []string) error {
		path, line, err := publicKey(args)
		if err != nil {
			return err
		}
		var signature []byte
		if *proof != "" {
			if signature, err = os.ReadFile(*proof); err != nil {
				return usageError{fmt.Errorf("read the proof: %w", err)}
			}
		} else {
			if strings.HasPrefix(line, "sk-") {
				a.say("touch the security key when it blinks")
			}
			if signature, err = a.signName(ctx, path); err != nil {
				return err
			}
		}
		body := apiv1.AddKeyBody{Line: line, Proof: string(signature)}
		key, raw, err := apiv1.AddKey.Call(ctx, a, apiv1.AddKeyInput{Body: body})
		if err != nil {
			return err
		}
		a.sayUnapplied(key.Unapplied)
		return output.print(a.out, raw, func() { a.out.line("%s", key.Fingerprint) })
	})
}

// sayUnapplied tells of clusters that could not do yet what was asked.
func (a *app) sayUnapplied(texts []string) {
	for _, text := range texts {
		a.say("not yet on cluster %s; it is tried again every 30 s", text)
	}
}

// signName has ssh-keygen sign the caller's name with the private half of a key, which lies beside the public one or is in an
// SSH agent.
func (a *app) signName(ctx context.Context, path string) ([]byte, error) {
	site, _, err := apiv1.GetSite.Call(ctx, a, apiv1.Nothing{})
	if err != nil {
		return nil, err
	}
	c := exec.CommandContext(ctx, "ssh-keygen", "-q", "-Y", "sign", "-n", apiv1.KeyProofNamespace, "-f", path)
	var told bytes.Buffer
	c.Stdin, c.Stderr = strings.NewReader(site.Identity), &told
	signature, err := c.Output()
	if err != nil {
		return nil, fmt.Errorf("ssh-keygen cannot sign with the private key of %s, which is to show that it is yours: %w: %s (sign where "+
			"the key is: printf %%s %s | ssh-keygen -Y sign -n %s -f KEY > proof; and give --proof proof)", path, err,
			strings.TrimSpace(told.String()), site.Identity, apiv1.KeyProofNamespace)
	}
	return signature, nil
}

// publicKey reads the file given, or the first that there is of the usual ones.
func publicKey(args []string) (path, line string, err error) {
	paths := args
	if len(paths) == 0 {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", "", usage("no home directory to look for a key in: name the file")
		}
		paths = []string{filepath.Join(home, ".ssh", "id_ed25519.pub"), filepath.Join(home, ".ssh", "id_rsa.pub")}
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		switch {
		case err == nil:
			if _, _, wrong := publickey.Parse(string(text)); wrong != nil { // before anything is signed, or sent
				return "", "", usage("%s: %w", path, wrong)
			}
			return path, strings.TrimSpace(string(text)), nil
		case !errors.Is(err, fs.ErrNotExist):
			return "", "", usageError{fmt.Errorf("read the public key: %w", err)}
		}
	}
	return "", "", usage("no public key at %s: make one with `ssh-keygen -t ed25519`, or name the file", strings.Join(paths, " or "))
}

func (a *app) keysDelete() *cobra.Command {
	c := &cobra.Command{
		Use:     "delete FINGERPRINT",
		Short:   "Remove an SSH key",
		Long:    `Remove a key: within seconds it gives no access to your clusters. Sessions through the gateway that it opened end.`,
		Example: `  muster keys delete SHA256:9zNnXxFvbBnuk0yBBiUBDS2h4oR1X4P2jZy3L0cQ8yA`,
		Args:    cobra.ExactArgs(1),
		ValidArgsFunction: a.completeFirst(func(ctx context.Context) ([]string, error) {
			return namesOf(ctx, a, apiv1.ListKeys, func(k apiv1.Key) string { return k.Fingerprint })
		}),
	}
	var ref apiv1.DeleteKeyInput
	return doing(a, c, apiv1.DeleteKey, &ref, "key %s is removed", &ref.Fingerprint)
}
