package cli

import (
	"context"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	apiv1 "muster/api/v1"
)

func (a *app) users() *cobra.Command {
	return group(&cobra.Command{
		Use:   "users",
		Short: "Manage the people of the site",
		Long: `A person's name is also their account on the nodes of their clusters, with a user ID that is theirs for life. People are never
deleted, as files and bills name them; those who have left are disabled. What people may do depends on their roles in projects
(` + "`muster projects`" + `).`,
		Example: `  muster users add alice --name "Alice Ampère"
  muster projects grant aero alice member
  muster users disable alice`,
	}, a.usersList(), a.usersAdd(), a.usersSet(), a.usersAble("disable", true), a.usersAble("enable", false))
}

func (a *app) usersList() *cobra.Command {
	c := listVerb("List the people of the site",
		`List the people with their user IDs, whether they are operators, and whether they are disabled.`,
		`  muster users list`)
	return listing(a, c, apiv1.ListPeople, &apiv1.Page{}, func(people []apiv1.Person) {
		t := newTable("NAME", "UID", "FULL NAME", "IS", "LOGS IN AS", "AGE")
		for _, p := range people {
			is := []shown{}
			if p.Operator {
				is = append(is, "operator")
			}
			if p.Disabled {
				is = append(is, a.paint(a.out, red, "disabled"))
			}
			_, subject, _ := strings.Cut(p.Subject, " ")
			t.row(p.Name, strconv.Itoa(p.UID), p.FullName, joined(is, ", "), subject, age(p.CreatedAt))
		}
		t.print(a.out)
	})
}

func (a *app) usersAdd() *cobra.Command {
	c := &cobra.Command{
		Use:   "add NAME",
		Short: "Add a person",
		Long: `Add a person. NAME is their account on nodes, for life: a small letter, then small letters, digits, - and _. A person comes in with a login, if
--subject names the identity, or with a token that an operator makes for them
(` + "`muster tokens add --person`" + `). They see nothing until they have a role in a project.`,
		Example: `  muster users add alice --name "Alice Ampère"
  muster users add bob --subject "https://login.example.org 5f2c9a"
  muster users add carol --operator`,
		Args: cobra.ExactArgs(1),
	}
	var in apiv1.AddPersonInput
	c.Flags().StringVar(&in.Body.FullName, "name", "", "full `NAME`")
	c.Flags().StringVar(&in.Body.Subject, "subject", "",
		"issuer and `SUBJECT` of the identity that logs in as this person, with a space between")
	c.Flags().BoolVar(&in.Body.Operator, "operator", false, "make the person an operator of the site")
	return showing(a, c, apiv1.AddPerson, &in, func(p apiv1.Person) {
		a.say("%s is added, with account %s, user ID %d", p.Name, p.Name, p.UID)
		a.say("`muster projects grant PROJECT %s member` gives them access to clusters", p.Name)
	}, &in.Body.Name)
}

func (a *app) usersSet() *cobra.Command {
	c := &cobra.Command{
		Use:   "set NAME",
		Short: "Change a person",
		Long: `Change a person's full name, the identity that logs in as them, or whether they are an operator. What no flag names stays. The
name itself never changes.`,
		Example: `  muster users set alice --operator
  muster users set alice --operator=false
  muster users set bob --subject "https://login.example.org 5f2c9a"`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: a.completeFirst(a.personNames),
	}
	full := c.Flags().String("name", "", "full `NAME`")
	subject := c.Flags().String("subject", "", `issuer and `+"`SUBJECT`"+
		` of the identity that logs in as this person; "" for none`)
	operator := c.Flags().Bool("operator", false, "make the person an operator of the site")
	output := formatFlag(c)
	return a.verb(c, func(ctx context.Context, args []string) error {
		body := apiv1.ChangePersonBody{FullName: ifGiven(c, "name", full), Subject: ifGiven(c, "subject", subject),
			Operator: ifGiven(c, "operator", operator)}
		if body == (apiv1.ChangePersonBody{}) {
			return usage("say what to change: --name, --subject or --operator")
		}
		in := apiv1.ChangePersonInput{PersonRef: apiv1.PersonRef{Person: args[0]}, Body: body}
		return show(ctx, a, apiv1.ChangePerson, in, *output, func(apiv1.Person) { a.say("%s is changed", args[0]) })
	})
}

// ifGiven is a flag's value, nil if the flag was not given.
func ifGiven[T any](c *cobra.Command, flag string, value *T) *T {
	if !c.Flags().Changed(flag) {
		return nil
	}
	return value
}

// usersAble makes the verbs that shut somebody out and let them in again.
func (a *app) usersAble(verb string, disabled bool) *cobra.Command {
	c := &cobra.Command{
		Use:   verb + " NAME",
		Short: "Enable a disabled person",
		Long: `Enable a disabled person: unexpired tokens, keys and roles in projects are as they were. Their accounts on nodes open within
seconds.`,
		Example:           `  muster users ` + verb + ` alice`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: a.completeFirst(a.personNames),
	}
	in := apiv1.ChangePersonInput{Body: apiv1.ChangePersonBody{Disabled: &disabled}}
	if disabled {
		c.Short = "Disable a person everywhere"
		c.Long = `Disable a person: within seconds their tokens, logins and keys are refused, their sessions end and their accounts on nodes are
locked. Their files, jobs and clusters stay. ` + "`muster users enable`" + ` undoes it.`
		return doing(a, c, apiv1.ChangePerson, &in, "%s is disabled everywhere; their files, jobs and clusters stay", &in.Person)
	}
	return doing(a, c, apiv1.ChangePerson, &in, "%s is enabled again", &in.Person)
}
