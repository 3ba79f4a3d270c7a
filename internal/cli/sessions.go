package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	apiv1 "muster/api/v1"
)

func (a *app) sessions() *cobra.Command {
	return group(&cobra.Command{
		Use:   "sessions",
		Short: "Show and end sessions through the SSH gateway",
		Long: `Show who is or was logged in through the SSH gateway: to which cluster, since when, from where, and how many bytes
were sent each way. You see your own sessions; owners also see those in their projects, and operators see all.`,
		Example: `  muster sessions list
  muster sessions list --all
  muster sessions end s0f3a9c5d7e1b2468`,
	}, a.sessionsList(), a.sessionsEnd())
}

func (a *app) sessionsList() *cobra.Command {
	c := listVerb("List sessions, newest first",
		`List open sessions; with --all, also those that ended within the last year.`,
		`  muster sessions list
  muster sessions list --all -o json`)
	var in apiv1.ListSessionsInput
	c.Flags().BoolVar(&in.Ended, "all", false, "list sessions that have ended, too")
	return listing(a, c, apiv1.ListSessions, &in, a.printSessions)
}

func (a *app) printSessions(sessions []apiv1.Session) {
	if len(sessions) == 0 {
		a.say("no sessions that you may see")
		return
	}
	t := newTable("ID", "PERSON", "WHERE", "WHAT", "FROM", "AGE", "IN", "OUT", "STATE")
	for _, s := range sessions {
		state := "open"
		if s.EndedAt != nil {
			state = "ended " + age(*s.EndedAt) + " ago: " + s.Outcome
		}
		t.row(s.ID, s.Person, s.Project+"/"+s.Place, s.What, s.Remote, age(s.BeganAt), fmt.Sprint(s.Received), fmt.Sprint(s.Sent),
			state)
	}
	t.print(a.out)
}

func (a *app) sessionsEnd() *cobra.Command {
	c := &cobra.Command{
		Use:   "end ID",
		Short: "End a session",
		Long: `End a session and all others on the same connection. The person is told who ended it. Programs that they left running in the
background on the cluster go on.`,
		Example: `  muster sessions end s0f3a9c5d7e1b2468`,
		Args:    cobra.ExactArgs(1),
		ValidArgsFunction: a.completeFirst(func(ctx context.Context) ([]string, error) {
			return namesOf(ctx, a, apiv1.ListSessions, func(s apiv1.Session) string { return s.ID })
		}),
	}
	var ref apiv1.EndSessionInput
	return doing(a, c, apiv1.EndSession, &ref, "session %s is ended", &ref.Session)
}
