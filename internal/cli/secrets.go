package cli

import (
	"context"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"muster/internal/apiv1"
	"muster/internal/spec"
)

func (a *app) secrets() *cobra.Command {
	return group(&cobra.Command{
		Use:   "secrets",
		Short: "Show the site's secrets, and change them",
		Long: `What the site signs with, the munge keys of clusters and the key that all of them are sealed with in the database: how old each is,
and a change of it while everything runs. Values are never shown.`,
		Example: `  muster secrets list
  muster secrets rotate root
  muster secrets rekey`,
	}, a.secretsList(), a.secretsRotate(), a.secretsRekey())
}

func (a *app) secretsList() *cobra.Command {
	c := &cobra.Command{
		Use:     "list",
		Short:   "List the site's secrets, without their values",
		Long:    `List the site's secrets: name, how old each is, and, while it is being changed, for whom that waits. Values are never shown.`,
		Example: `  muster secrets list`,
		Args:    cobra.NoArgs,
	}
	output := formatFlag(c)
	c.RunE = a.do(func(ctx context.Context, _ []string) error {
		return show(ctx, a, apiv1.ListSecrets, apiv1.Nothing{}, *output, a.printSecrets)
	})
	return c
}

func (a *app) printSecrets(l apiv1.Secrets) {
	t := newTable("NAME", "GENERATION", "STATE", "ID", "SINCE", "WAITS FOR")
	for _, s := range l.Items {
		generation := ""
		if s.Generation > 0 {
			generation = strconv.FormatInt(s.Generation, 10)
		}
		t.row(s.Name, generation, s.State, s.ID, spec.When(s.Since), s.Waits)
	}
	t.print(a.out)
}

func (a *app) secretsRotate() *cobra.Command {
	c := &cobra.Command{
		Use:   "rotate NAME...",
		Short: "Change secrets while everything runs on them",
		Long: `Make new secrets. A new one is first believed by everybody, then it signs, and then the old one goes, when nobody lives by it any
more: sessions, jobs and nodes go on. muster secrets list shows how far it is and for whom it waits. Any controller continues
what another one began.

NAME is a name that muster secrets list shows; root, for all that the site signs with; munge, for all clusters; munge/PROJECT/CLUSTER;
or all.

With --now the old ones are refused at once, as when a backup was stolen together with its key. Nodes that lived by them are lost
and made anew, with their jobs; people get new certificates and may have to run muster ssh-config again.`,
		Example: `  muster secrets rotate agents-ca
  muster secrets rotate munge/physics/cfd
  muster secrets rotate gateway-ca --announce 30d
  muster secrets rotate root --now`,
		Args: cobra.MinimumNArgs(1),
	}
	announce := c.Flags().String("announce", "", "the `TIME` that the new one is believed before it signs, at the least (default: 7d where others have to be told, else seconds)")
	keep := c.Flags().String("keep", "", "the `TIME` that the old one is believed after that, at the least (default: as long as what it signed is good)")
	deadline := c.Flags().String("deadline", "30d", "the `TIME` after which nobody is waited for")
	now := c.Flags().Bool("now", false, "refuse the old ones at once, whoever lives by them")
	output := formatFlag(c)
	c.RunE = a.do(func(ctx context.Context, names []string) error {
		order := apiv1.SecretRotation{Names: names, Announce: *announce, Keep: *keep, Deadline: *deadline, Now: *now}
		return show(ctx, a, apiv1.RotateSecrets, apiv1.RotateSecretsInput{Body: order}, *output, a.printSecrets)
	})
	return c
}

func (a *app) secretsRekey() *cobra.Command {
	c := &cobra.Command{
		Use:   "rekey",
		Short: "Seal the secrets in the database with a new key",
		Long: `Seal the secrets in the database with a new key, while the controllers run. The key in the data directory is made and replaced by the
controller. With muster serve --key-file or --key-command, first put a new key in a line before the old one; take the old line away when
muster secrets list shows one site-key. Keep the old key as long as backups that are sealed with it.`,
		Example: `  muster secrets rekey`,
		Args:    cobra.NoArgs,
	}
	output := formatFlag(c)
	c.RunE = a.do(func(ctx context.Context, _ []string) error {
		list, raw, err := ask(ctx, a, apiv1.RekeySecrets, apiv1.Nothing{})
		if err != nil {
			return err
		}
		return output.print(a.out, raw, func() {
			a.printSecrets(apiv1.Secrets{Items: only(list.Items, "site-key")})
		})
	})
	return c
}

// only are those of one name.
func only(all []apiv1.SecretView, name string) (some []apiv1.SecretView) {
	for _, s := range all {
		if strings.EqualFold(s.Name, name) {
			some = append(some, s)
		}
	}
	return some
}
