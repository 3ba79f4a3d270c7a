package cli

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	apiv1 "muster/api/v1"
	"muster/internal/access"
	"muster/internal/kit/lists"
)

func (a *app) projects() *cobra.Command {
	c := group(&cobra.Command{
		Use:   "projects",
		Short: "List projects and manage their members",
		Long: `Clusters belong to projects, and people have roles in projects: a viewer only looks, a member creates and uses clusters, an owner
also manages the members. Without a verb, list your projects and your role in each; operators see all.`,
		Example: `  muster projects
  muster projects members aero
  muster projects grant aero bob member
  muster projects revoke aero bob`,
	}, a.projectsList(), a.projectsAdd(), a.projectsSet(), a.projectsHooks(), a.projectsMembers(), a.projectsGrant(),
		a.projectsRevoke(), a.projectsJoin(), a.projectsLeave())
	return a.verb(c, func(ctx context.Context, _ []string) error {
		return showAll(ctx, a, apiv1.ListProjects, apiv1.Page{}, asTable, a.printProjects)
	})
}

func (a *app) projectsList() *cobra.Command {
	c := listVerb("List your projects", `List your projects and your role in each. Operators see all.`,
		`  muster projects list`)
	return listing(a, c, apiv1.ListProjects, &apiv1.Page{}, a.printProjects)
}

func (a *app) printProjects(projects []apiv1.Project) {
	if len(projects) == 0 {
		a.say("you are in no project: an operator, or the owner of one, can add you")
		return
	}
	t := newTable("PROJECT", "YOU ARE", "MEMBERS", "CLUSTERS", "RECORDED", "AGE")
	for _, p := range projects {
		if p.Invited != "" {
			t.row(p.Name, fmt.Sprintf("invited as %s, by %s", p.Invited, p.InvitedBy), "", "", "", age(p.CreatedAt))
			continue
		}
		t.row(p.Name, string(p.Role), strconv.Itoa(p.Members), strconv.Itoa(p.Clusters), textIf(p.Recorded, "yes"),
			age(p.CreatedAt))
	}
	t.print(a.out)
}

func (a *app) projectsAdd() *cobra.Command {
	c := &cobra.Command{
		Use:   "add PROJECT",
		Short: "Create a project",
		Long: `Create a project with its first owner, who adds the other members. Its quota and budget are set in the site file. Projects are
never deleted, as bills name them.`,
		Example: `  muster projects add aero --owner alice
  muster projects add audit --owner alice --recorded`,
		Args: cobra.ExactArgs(1),
	}
	owner := c.Flags().String("owner", "", "the `PERSON` who owns it and manages its members")
	recorded := c.Flags().Bool("recorded", false, "record terminal sessions on its clusters; people are told when they log in")
	_ = c.RegisterFlagCompletionFunc("owner", a.completeAll(a.personNames))
	output := formatFlag(c)
	return a.verb(c, func(ctx context.Context, args []string) error {
		if *owner == "" {
			return usage("a project needs an owner: `muster projects add %s --owner PERSON`", args[0])
		}
		body := apiv1.AddProjectBody{Name: args[0], Owner: *owner, Recorded: *recorded}
		return show(ctx, a, apiv1.AddProject, apiv1.AddProjectInput{Body: body}, *output, func(apiv1.Project) {
			a.say("project %s is created; %s owns it and manages its members", args[0], *owner)
		})
	})
}

func (a *app) projectsSet() *cobra.Command {
	c := &cobra.Command{
		Use:   "set PROJECT",
		Short: "Change a project",
		Long: `Change whether terminal sessions on the project's clusters are recorded. This applies to new sessions; people are told when they
log in.`,
		Example: `  muster projects set aero --recorded
  muster projects set aero --recorded=false`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: a.completeFirst(a.projectNames),
	}
	recorded := c.Flags().Bool("recorded", false, "record terminal sessions on its clusters")
	output := formatFlag(c)
	return a.verb(c, func(ctx context.Context, args []string) error {
		if !c.Flags().Changed("recorded") {
			return usage("say what to change: --recorded or --recorded=false")
		}
		in := apiv1.ChangeProjectInput{ProjectRef: apiv1.ProjectRef{Project: args[0]},
			Body: apiv1.ChangeProjectBody{Recorded: recorded}}
		what := map[bool]string{true: "recorded", false: "not recorded"}[*recorded]
		return show(ctx, a, apiv1.ChangeProject, in, *output, func(apiv1.Project) {
			a.say("new terminal sessions on clusters of %s are %s", args[0], what)
		})
	})
}

func (a *app) projectsHooks() *cobra.Command {
	c := &cobra.Command{
		Use:   "hooks PROJECT",
		Short: "Show or set the scripts that a project runs around jobs",
		Long: `Show the scripts that run around each job of the project's clusters, once on each of the job's nodes, as the job's user; or set
them. They apply to jobs that start from now on, with image debian12-hpc on nodes that boot from now on. Only owners of the project set
them.

The prolog runs before the job's programs, and sets environment variables for them by printing "export NAME=value". If it fails, the
job is cancelled. The epilog runs after them. Each has a minute.`,
		Example: `  muster projects hooks aero
  muster projects hooks aero --prolog prolog.sh --epilog epilog.sh
  muster projects hooks aero --prolog ""`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: a.completeFirst(a.projectNames),
	}
	prolog := c.Flags().String("prolog", "", "the `FILE` with the prolog; empty: none from now on")
	epilog := c.Flags().String("epilog", "", "the `FILE` with the epilog; empty: none from now on")
	output := formatFlag(c)
	return a.verb(c, func(ctx context.Context, args []string) error {
		ref := apiv1.ProjectRef{Project: args[0]}
		hooks, raw, err := apiv1.GetHooks.Call(ctx, a, ref)
		if err != nil {
			return err
		}
		changed := false
		for flag, change := range map[string]struct{ file, script *string }{
			"prolog": {prolog, &hooks.Prolog}, "epilog": {epilog, &hooks.Epilog},
		} {
			if !c.Flags().Changed(flag) {
				continue
			}
			if changed, *change.script = true, ""; *change.file == "" {
				continue
			}
			_, text, err := a.readText("the "+flag, *change.file)
			if err != nil {
				return err
			}
			*change.script = string(text)
		}
		if changed {
			if hooks, raw, err = apiv1.SetHooks.Call(ctx, a, apiv1.SetHooksInput{ProjectRef: ref, Body: hooks}); err != nil {
				return err
			}
		}
		return output.print(a.out, raw, func() {
			a.printHook("prolog", hooks.Prolog)
			a.printHook("epilog", hooks.Epilog)
		})
	})
}

func (a *app) printHook(name, script string) {
	if script == "" {
		a.out.line("%s: none", name)
		return
	}
	a.out.line("%s:", name)
	for text := range strings.Lines(script) {
		a.out.line("    %s", strings.TrimSuffix(text, "\n"))
	}
}

func (a *app) projectsMembers() *cobra.Command {
	c := &cobra.Command{
		Use:               "members PROJECT",
		Short:             "List the members of a project",
		Long:              `List the members of a project with their roles, and since when they have had them.`,
		Example:           `  muster projects members aero`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: a.completeFirst(a.projectNames),
	}
	var in apiv1.ListMembersInput
	return listing(a, c, apiv1.ListMembers, &in, func(members []apiv1.Member) {
		t := newTable("PERSON", "ROLE", "FOR", "STATE")
		for _, m := range members {
			state := shown("")
			switch {
			case m.Disabled:
				state = a.paint(a.out, red, "disabled")
			case m.InvitedBy != "":
				state = line("invited by %s", m.InvitedBy)
			}
			t.row(m.Person, string(m.Role), age(m.Since), state)
		}
		t.print(a.out)
	}, &in.Project)
}

func roleNames() []string {
	return lists.Map(access.Roles(), func(r access.Role) string { return string(r) })
}

func (a *app) projectsGrant() *cobra.Command {
	c := &cobra.Command{
		Use:   "grant PROJECT PERSON ROLE",
		Short: "Give a person a role in a project",
		Long: `Make a person an owner, a member or a viewer of a project, whatever they were in it before. Whoever is not in it yet is invited,
and is in it once they ` + "`muster projects join`" + ` it, unless an operator of the site puts them there. Owners
and members get an account on the
project's clusters within seconds, except on those whose file names others under access.users.`,
		Example: `  muster projects grant aero bob member
  muster projects grant aero alice owner`,
		Args: cobra.ExactArgs(3),
		ValidArgsFunction: a.completeInTurn(a.projectNames, a.personNames, func(context.Context) ([]string, error) {
			return roleNames(), nil
		}),
	}
	output := formatFlag(c)
	return a.verb(c, func(ctx context.Context, args []string) error {
		if roles := roleNames(); !slices.Contains(roles, args[2]) {
			return usage("%q is not a role: use one of %s", args[2], strings.Join(roles, ", "))
		}
		in := apiv1.SetMemberInput{ProjectRef: apiv1.ProjectRef{Project: args[0]}, PersonRef: apiv1.PersonRef{Person: args[1]},
			Body: apiv1.SetMemberBody{Role: apiv1.Role(args[2])}}
		m, raw, err := apiv1.SetMember.Call(ctx, a, in)
		if err != nil {
			return err
		}
		a.sayUnapplied(m.Unapplied)
		return output.print(a.out, raw, func() {
			if m.InvitedBy != "" {
				a.say("%s is invited to %s as %s, and takes it with `muster projects join %s`", args[1], args[0], args[2], args[0])
				return
			}
			a.say("%s is %s of %s", args[1], args[2], args[0])
		})
	})
}

func (a *app) projectsRevoke() *cobra.Command {
	c := &cobra.Command{
		Use:   "revoke PROJECT PERSON",
		Short: "Remove a person from a project",
		Long: `Remove a person from a project. Their sessions on its clusters end and their accounts there are locked within seconds. Their
clusters and files stay the project's. The only owner of a project stays: make somebody else an owner first.`,
		Example:           `  muster projects revoke aero bob`,
		Args:              cobra.ExactArgs(2),
		ValidArgsFunction: a.completeInTurn(a.projectNames, a.personNames),
	}
	var in apiv1.RemoveMemberInput
	return doing(a, c, apiv1.RemoveMember, &in, "%[2]s is no longer in %[1]s; their clusters and files stay there", &in.Project,
		&in.Person)
}

func (a *app) projectsJoin() *cobra.Command {
	c := &cobra.Command{
		Use:   "join PROJECT",
		Short: "Take the role that you are offered in a project",
		Long: `Take the role that an owner of a project offers you; ` + "`muster projects`" + ` lists what you are offered. You get an account on the
project's clusters within seconds.`,
		Example:           `  muster projects join aero`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: a.completeFirst(a.projectNames),
	}
	var ref apiv1.ProjectRef
	return doing(a, c, apiv1.JoinProject, &ref, "you are in project %s", &ref.Project)
}

func (a *app) projectsLeave() *cobra.Command {
	c := &cobra.Command{
		Use:   "leave PROJECT",
		Short: "Leave a project, or decline an invitation",
		Long: `Leave a project: your sessions on its clusters end, and your accounts there are locked within seconds. Clusters and files stay the
project's. Its only owner cannot leave: make somebody else an owner first.`,
		Example:           `  muster projects leave aero`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: a.completeFirst(a.projectNames),
	}
	return a.verb(c, func(ctx context.Context, args []string) error {
		site, _, err := apiv1.GetSite.Call(ctx, a, apiv1.Nothing{})
		if err != nil {
			return err
		}
		return done(ctx, a, apiv1.RemoveMember, apiv1.RemoveMemberInput{ProjectRef: apiv1.ProjectRef{Project: args[0]},
			PersonRef: apiv1.PersonRef{Person: site.Identity}}, "%s", "you are no longer in project "+args[0])
	})
}
