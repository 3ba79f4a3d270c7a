package cli

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	apiv1 "muster/api/v1"
)

func (a *app) tokens() *cobra.Command {
	return group(&cobra.Command{
		Use:   "tokens",
		Short: "Manage your tokens for programs",
		Long: `A token lets whoever holds it act as you: put it into MUSTER_TOKEN. Make one for each program, with no more rights than
it needs, so that each can be revoked alone. The site keeps only a hash: a token is shown once, when it is made.`,
		Example: `  MUSTER_TOKEN=$(muster tokens add ci --project aero --for 30d) muster list
  muster tokens list
  muster tokens revoke tv5we3mthdo`,
	}, a.tokensList(), a.tokensAdd(), a.tokensRevoke())
}

func (a *app) tokensList() *cobra.Command {
	c := listVerb("List your tokens",
		`List your valid tokens: what each is for, what it may do, and when it was last used. The tokens themselves are not kept.`,
		`  muster tokens list`)
	return listing(a, c, apiv1.ListTokens, &apiv1.Page{}, func(tokens []apiv1.Token) {
		t := newTable("ID", "FOR", "KIND", "MAY", "PROJECT", "ENDS IN", "USED", "AGE")
		for _, k := range tokens {
			may := "change"
			if k.Scope == apiv1.ScopeRead {
				may = "read"
			}
			ends, used := "never", "never"
			if !k.ExpiresAt.IsZero() {
				ends = short(time.Until(k.ExpiresAt))
			}
			if !k.UsedAt.IsZero() {
				used = age(k.UsedAt) + " ago"
			}
			t.row(k.ID, k.Name, string(k.Kind), may, k.Project, ends, used, age(k.CreatedAt))
		}
		t.print(a.out)
	})
}

func (a *app) tokensAdd() *cobra.Command {
	c := &cobra.Command{
		Use:   "add WHAT",
		Short: "Make a token",
		Long: `Make a token and print it on standard output: it is shown only once. WHAT says what it is for, so that you know later which to
revoke. It may do what you may, or less, and never outlives the token that made it. With --person, an operator makes one for
somebody who cannot log in; that person's list shows who made it.`,
		Example: `  muster tokens add laptop
  muster tokens add dashboard --read --for 365d
  muster tokens add ci --project aero --for 30d > ci.token`,
		Args: cobra.ExactArgs(1),
	}
	read := c.Flags().Bool("read", false, "read only: it cannot change anything or log in to clusters")
	project := c.Flags().String("project", "", "limit it to this `PROJECT`")
	life := c.Flags().String("for", "", "how long it is valid, as in 12h or 30d (default 90d)")
	person := c.Flags().String("person", "", "make it for this `PERSON`; for operators")
	_ = c.RegisterFlagCompletionFunc("project", a.completeAll(a.projectNames))
	_ = c.RegisterFlagCompletionFunc("person", a.completeAll(a.personNames))
	output := formatFlag(c)
	return a.verb(c, func(ctx context.Context, args []string) error {
		body := apiv1.NewToken{Name: args[0], Scope: apiv1.ScopeAll, Project: *project, For: *life}
		if *read {
			body.Scope = apiv1.ScopeRead
		}
		if *person == "" {
			return show(ctx, a, apiv1.AddToken, apiv1.AddTokenInput{Body: body}, *output, a.printToken)
		}
		in := apiv1.AddPersonTokenInput{PersonRef: apiv1.PersonRef{Person: *person}, Body: body}
		return show(ctx, a, apiv1.AddPersonToken, in, *output, a.printToken)
	})
}

func (a *app) printToken(made apiv1.Token) {
	a.out.line("%s", made.Token)
	a.say("token %s for %s is %s; it is shown only once", made.ID, made.Name,
		tokenLimits(made.Scope, made.Project, made.ExpiresAt))
}

func (a *app) tokensRevoke() *cobra.Command {
	c := &cobra.Command{
		Use:     "revoke ID…",
		Short:   "Revoke your tokens",
		Long:    `Revoke tokens: they are refused at once, and what they hold open ends within seconds.`,
		Example: `  muster tokens revoke tv5we3mthdo`,
		Args:    cobra.MinimumNArgs(1),
		ValidArgsFunction: a.completeAll(func(ctx context.Context) ([]string, error) {
			return namesOf(ctx, a, apiv1.ListTokens, func(t apiv1.Token) string {
				return t.ID + "\t" + strings.ReplaceAll(t.Name, "\t", " ")
			})
		}),
	}
	return a.verb(c, func(ctx context.Context, ids []string) error {
		for _, id := range ids {
			if err := done(ctx, a, apiv1.DeleteToken, apiv1.DeleteTokenInput{Token: id}, "token %s is revoked", id); err != nil {
				return err
			}
		}
		return nil
	})
}
