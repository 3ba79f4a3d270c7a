package cli

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	apiv1 "muster/api/v1"
	"muster/internal/kit/duration"
)

func (a *app) audit() *cobra.Command {
	c := &cobra.Command{
		Use:   "audit",
		Short: "Show who did what, or tried to",
		Long: `Show the audit log, oldest first: every API request and every session, allowed or refused, with who made it and
from where. The contents of sessions and requests are not in it. Requests that only read and were allowed are left out; --all shows
them. You see what you did yourself; owners also see what was done in their projects, and operators see all.`,
		Example: `  muster audit --since 1h
  muster audit --project aero --person bob
  muster audit --refused --since 7d
  muster audit --action delete-cluster --object aero/cfd --since 30d
  muster audit --since 2026-11-01 -o json`,
		Args: cobra.NoArgs,
	}
	person := c.Flags().String("person", "", "only what this `PERSON` did")
	project := c.Flags().String("project", "", "only what was done in this `PROJECT`")
	action := c.Flags().String("action", "", "only this `ACTION`, such as delete-cluster or begin-session")
	object := c.Flags().String("object", "", "only what was done to this `OBJECT`, as the log names it")
	since := c.Flags().String("since", "1d", "only from this `TIME` on: 2h or 3d ago, a day, or RFC 3339")
	until := c.Flags().String("until", "", "only before this `TIME`")
	_ = c.RegisterFlagCompletionFunc("person", a.completeAll(a.personNames))
	_ = c.RegisterFlagCompletionFunc("project", a.completeAll(a.projectNames))
	looks := c.Flags().Bool("all", false, "show requests that only read, too")
	refused := c.Flags().Bool("refused", false, "show only what was refused, or failed")
	c.MarkFlagsMutuallyExclusive("all", "refused")
	output := formatFlag(c)
	return a.verb(c, func(ctx context.Context, _ []string) error {
		from, err := past("--since", *since, time.Now())
		if err != nil {
			return err
		}
		in := apiv1.ListAuditInput{Since: from, Person: *person, Project: *project, Action: *action,
			Object: *object, Show: "acts"}
		if *until != "" {
			if in.Until, err = past("--until", *until, time.Now()); err != nil {
				return err
			}
		}
		switch {
		case *looks:
			in.Show = "all"
		case *refused:
			in.Show = "refused"
		}
		return showAll(ctx, a, apiv1.ListAudit, in, *output, a.printAudit)
	})
}

func (a *app) printAudit(entries []apiv1.Entry) {
	if len(entries) == 0 {
		a.say("no entries that you may see; `--since 30d` looks further back, `--all` shows requests that only read, too")
		return
	}
	t := newTable("TIME", "WHO", "DOOR", "WHAT", "PROJECT", "OF", "OUTCOME", "FROM", "WITH")
	for i := len(entries) - 1; i >= 0; i-- {
		e := entries[i]
		outcome := cell(e.Outcome)
		if strings.HasPrefix(e.Outcome, "4") || strings.HasPrefix(e.Outcome, "5") {
			outcome = a.paint(a.out, red, e.Outcome)
		}
		from := e.Remote
		if from == "@" { // the address of a unix socket: root's own, on the controller's host
			from = "local socket"
		}
		t.row(localTime(e.At), e.Person, string(e.Door), e.Action, e.Project, e.Object, outcome, from, e.Token)
	}
	t.print(a.out)
}

// past reads a time that has passed, to the second: so long ago, a day, or an instant.
func past(flag, text string, now time.Time) (time.Time, error) {
	if ago, err := duration.Parse(text); err == nil && ago > 0 {
		return now.Add(-ago).UTC().Truncate(time.Second), nil
	}
	if at, err := readTime(text); err == nil {
		return at.UTC().Truncate(time.Second), nil
	}
	return now, usage("%s: %q is not a time: write how long ago, as in 2h or 3d, a day as in 2026-11-01, or RFC 3339", flag,
		text)
}
