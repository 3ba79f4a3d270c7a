package cli

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"muster/internal/apiv1"
)

func (a *app) users() *cobra.Command {
	return group(&cobra.Command{
		Use:   "users",
		Short: "Say who may come to the site",
		Long: `The people of the site. A person's name is also their account on the nodes of their clusters, with a number that is theirs for
life. Nobody is ever deleted, as their name stands in files and books: who has left is disabled. What somebody may do depends on
what they are in which project (` + "`muster projects`" + `).`,
		Example: `  muster users add alice --name "Alice Ampère"
  muster projects grant aero alice member
  muster users disable alice`,
	}, a.usersList(), a.usersAdd(), a.usersSet(), a.usersAble("disable", true), a.usersAble("enable", false))
}

func (a *app) usersList() *cobra.Command {
	c := &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List everybody who may come",
		Long:    `List everybody with the number of their account, whether they run the site, and whether they are let in.`,
		Example: `  muster users list`,
		Args:    cobra.NoArgs,
	}
	return listing(a, c, apiv1.ListPeople, func(people []apiv1.Person) {
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
		Short: "Let somebody in",
		Long: `Make a person. NAME is the account that they will have on nodes: a letter, then letters, digits, - and _. It is theirs for life.
A person comes in with a login, if --subject says as whom they log in, or with a token that an operator makes for them
(` + "`muster tokens add --person`" + `). They see nothing until somebody gives them a role in a project.`,
		Example: `  muster users add alice --name "Alice Ampère"
  muster users add bob --subject "https://login.example.org 5f2c9a"
  muster users add carol --operator`,
		Args: cobra.ExactArgs(1),
	}
	full := c.Flags().String("name", "", "full `NAME`")
	subject := c.Flags().String("subject", "", "issuer and `SUBJECT` of the identity that logs in as this person, with a space between")
	operator := c.Flags().Bool("operator", false, "runs the site")
	output := formatFlag(c)
	c.RunE = a.do(func(ctx context.Context, args []string) error {
		body := apiv1.AddPersonBody{Name: args[0], FullName: *full, Subject: *subject, Operator: *operator}
		p, raw, err := ask(ctx, a, apiv1.AddPerson, apiv1.AddPersonInput{Body: body})
		if err != nil {
			return err
		}
		return output.print(a.out, raw, func() {
			a.say("%s may come, with account %s, number %d", p.Name, p.Name, p.UID)
			a.say("`muster projects grant PROJECT %s member` gives them clusters to use", p.Name)
		})
	})
	return c
}

func (a *app) usersSet() *cobra.Command {
	c := &cobra.Command{
		Use:   "set NAME",
		Short: "Change what a person is to the site",
		Long: `Change a person's full name, the identity that logs in as them, or whether they run the site. What is not named stays as it is.
The name itself stays for life.`,
		Example: `  muster users set alice --operator
  muster users set alice --operator=false
  muster users set bob --subject "https://login.example.org 5f2c9a"`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: a.completeFirst(a.personNames),
	}
	full := c.Flags().String("name", "", "full `NAME`")
	subject := c.Flags().String("subject", "", `issuer and `+"`SUBJECT`"+` of the identity that logs in as this person; "" for none`)
	operator := c.Flags().Bool("operator", false, "runs the site")
	output := formatFlag(c)
	c.RunE = a.do(func(ctx context.Context, args []string) error {
		body := apiv1.ChangePersonBody{FullName: ifGiven(c, "name", full), Subject: ifGiven(c, "subject", subject), Operator: ifGiven(c, "operator", operator)}
		if body == (apiv1.ChangePersonBody{}) {
			return usage("say what to change: --name, --subject or --operator")
		}
		in := apiv1.ChangePersonInput{PersonRef: apiv1.PersonRef{Person: args[0]}, Body: body}
		_, raw, err := ask(ctx, a, apiv1.ChangePerson, in)
		if err != nil {
			return err
		}
		return output.print(a.out, raw, func() { a.say("%s is changed", args[0]) })
	})
	return c
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
		Short: "Let somebody in again",
		Long: `Let in again who was disabled: their tokens that have not ended, their keys, and their roles in projects are as they were. Their
accounts on nodes open within seconds.`,
		Example:           `  muster users ` + verb + ` alice`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: a.completeFirst(a.personNames),
	}
	if disabled {
		c.Short = "Shut somebody out, at every door"
		c.Long = `Shut a person out: their tokens, logins and keys open nothing any more, their sessions end, and their accounts on nodes are locked,
within seconds. Their files, their jobs and their clusters stay. ` + "`muster users enable`" + ` undoes it.`
	}
	c.RunE = a.do(func(ctx context.Context, args []string) error {
		in := apiv1.ChangePersonInput{PersonRef: apiv1.PersonRef{Person: args[0]}, Body: apiv1.ChangePersonBody{Disabled: &disabled}}
		return do(ctx, a, apiv1.ChangePerson, in, "%s", fmt.Sprintf(map[bool]string{true: "%s is let in nowhere any more; their files, jobs and clusters stay", false: "%s is let in again"}[disabled], args[0]))
	})
	return c
}
