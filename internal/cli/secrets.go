package cli

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	apiv1 "muster/api/v1"
	"muster/internal/spec"
)

func (a *app) secrets() *cobra.Command {
	return group(&cobra.Command{
		Use:   "secrets",
		Short: "Show the site's secrets, and change them",
		Long: `Show and rotate the site's signing keys, the munge keys of clusters and the key that encrypts all of them in the database, while
everything runs. Values are never shown.`,
		Example: `  muster secrets list
  muster secrets rotate root
  muster secrets rekey`,
	}, a.secretsList(), a.secretsRotate(), a.secretsRekey())
}

func (a *app) secretsList() *cobra.Command {
	c := &cobra.Command{
		Use:     "list",
		Short:   "List the site's secrets, without their values",
		Long:    `List the site's secrets: name, age and, during a rotation, whom it waits for. Values are never shown.`,
		Example: `  muster secrets list`,
		Args:    cobra.NoArgs,
	}
	return showing(a, c, apiv1.ListSecrets, &apiv1.Nothing{}, a.printSecrets)
}

func (a *app) printSecrets(l apiv1.Secrets) {
	t := newTable("NAME", "GENERATION", "STATE", "ID", "SINCE", "WAITS FOR")
	for _, s := range l.Items {
		generation := textIf(s.Generation > 0, strconv.FormatInt(s.Generation, 10))
		t.row(s.Name, generation, s.State, s.ID, spec.When(s.Since), s.Waits)
	}
	t.print(a.out)
}

func (a *app) secretsRotate() *cobra.Command {
	c := &cobra.Command{
		Use:   "rotate NAME...",
		Short: "Rotate secrets while everything runs",
		Long: `Rotate secrets. A new one is first trusted everywhere, then it signs, and the old one is dropped once nothing depends on it any
more: sessions, jobs and nodes go on. muster secrets list shows the progress and whom it waits for. Any controller continues what
another one began.

NAME is a name from muster secrets list; root, for all signing keys of the site; munge, for all clusters; munge/PROJECT/CLUSTER; or
all.

With --now the old ones are refused at once: use it when a backup was stolen together with its key. Nodes that depended on them are
lost with their jobs and replaced; people get new certificates and may have to run muster ssh-config again.`,
		Example: `  muster secrets rotate agents-ca
  muster secrets rotate munge/physics/cfd
  muster secrets rotate gateway-ca --announce 30d
  muster secrets rotate root --now`,
		Args: cobra.MinimumNArgs(1),
	}
	announce := c.Flags().String("announce", "",
		"the least `TIME` that the new one is trusted before it signs (default: 7d where clients must learn it, else seconds)")
	keep := c.Flags().String("keep", "",
		"the least `TIME` that the old one is trusted after that (default: as long as what it signed is valid)")
	deadline := c.Flags().String("deadline", "30d", "the `TIME` after which waiting ends")
	now := c.Flags().Bool("now", false, "refuse the old ones at once, whatever depends on them")
	output := formatFlag(c)
	return a.verb(c, func(ctx context.Context, names []string) error {
		order := apiv1.SecretRotation{Names: names, Announce: *announce, Keep: *keep, Deadline: *deadline, Now: *now}
		return show(ctx, a, apiv1.RotateSecrets, apiv1.RotateSecretsInput{Body: order}, *output, a.printSecrets)
	})
}

func (a *app) secretsRekey() *cobra.Command {
	c := &cobra.Command{
		Use:   "rekey",
		Short: "Encrypt the secrets in the database with a new key",
		Long: `Encrypt the secrets in the database with a new key while the controllers run. The controller makes and replaces the key in the data
directory itself. With muster serve --key-file or --key-command, first add a new key in a line above the old one; remove the old
line once muster secrets list shows one site-key. Keep the old key as long as you keep backups encrypted with it.`,
		Example: `  muster secrets rekey`,
		Args:    cobra.NoArgs,
	}
	other := func(s apiv1.SecretView) bool { return !strings.EqualFold(s.Name, "site-key") }
	return showing(a, c, apiv1.RekeySecrets, &apiv1.Nothing{}, func(list apiv1.Secrets) {
		a.printSecrets(apiv1.Secrets{Items: slices.DeleteFunc(list.Items, other)})
	})
}
