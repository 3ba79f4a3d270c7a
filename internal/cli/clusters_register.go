package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"muster/internal/apiv1"
)

// centreFlags is what a command says of a centre. What is not said stays as it is.
type centreFlags struct {
	login, hostCA, hostKey, as, probe string
	projects, out                     []string
	wait                              bool
}

func (f *centreFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&f.login, "login", "", "where its sshd is, `HOST[:PORT]`")
	c.Flags().StringVar(&f.hostCA, "host-ca", "", "the public `KEY|FILE` of the authority that signs its host keys")
	c.Flags().StringVar(&f.hostKey, "host-key", "", "its public host `KEY|FILE`; a file may have several, as ssh-keyscan prints them")
	c.Flags().StringVar(&f.as, "as", "", "as whom people go there, the `RULE`: same, ACCOUNT, or @FILE")
	c.Flags().StringArrayVar(&f.projects, "project", nil, "let `PROJECT[=QUEUE,QUEUE]` in, to these queues or to all; may be given several times")
	c.Flags().StringVar(&f.probe, "probe", "", "the `ACCOUNT` there that asks for queues (default muster)")
	c.Flags().BoolVar(&f.wait, "wait", false, "wait until it was looked at; exit code 1 if it does not answer")
	c.MarkFlagsMutuallyExclusive("host-ca", "host-key")
}

const ruleOfAccounts = `Rules of accounts: same is everybody's own name; ACCOUNT is one that all of the project share, and no other project has it; @FILE
names a file with a line PERSON=ACCOUNT for everybody.`

func (a *app) clustersRegister() *cobra.Command {
	c := &cobra.Command{
		Use:   "register NAME",
		Short: "Register a cluster that Muster did not build",
		Long: `Register a centre's batch system, so that the owners and members of the projects given reach it through the door, and see its
queues. Its sshd has to trust what ` + "`muster clusters ca`" + ` prints. Who answers there is proved by host key: take it from the centre
itself, or by ssh-keyscan over a network that you trust.

` + ruleOfAccounts + `

Each minute Muster logs in there with the account of --probe, which needs no rights, and asks Slurm or PBS for the queues.`,
		Example: `  muster clusters register arc --login arc.example.org --host-key arc.keys --as same --project aero=cpu,gpu --project bio --wait
  muster clusters register old --login 192.0.2.7:2222 --host-ca ca.pub --as hpc_aero --project aero`,
		Args: cobra.ExactArgs(1),
	}
	var f centreFlags
	f.add(c)
	output := formatFlag(c)
	c.RunE = a.do(func(ctx context.Context, args []string) error {
		if f.login == "" || f.hostCA == "" && f.hostKey == "" || f.as == "" || len(f.projects) == 0 {
			return usage("--login, --host-ca or --host-key, --as and --project are needed")
		}
		body := apiv1.AddCentreBody{Name: args[0]}
		if err := f.change(&body.CentreSpec); err != nil {
			return err
		}
		return a.saidOfCentre(ctx, args[0], f.wait, output, func(controller *client) (apiv1.Centre, []byte, error) {
			return apiv1.AddCentre.Call(ctx, controller, apiv1.AddCentreInput{Body: body})
		})
	})
	return c
}

func (a *app) clustersSet() *cobra.Command {
	c := &cobra.Command{
		Use:   "set NAME",
		Short: "Change what is said of a registered cluster",
		Long: `Change what is said of a registered cluster: what no flag names stays as it is. --project lets a project in, or changes its
queues; --as goes for the projects named beside it, or, without any, for all. Without flags nothing changes, and the
cluster is looked at anew. Sessions that are no longer allowed end.

` + ruleOfAccounts,
		Example: `  muster clusters set arc --project bio=gpu --as hpc_bio
  muster clusters set arc --remove-project bio
  muster clusters set arc --wait`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: a.completeFirst(a.centreNames),
	}
	var f centreFlags
	f.add(c)
	c.Flags().StringArrayVar(&f.out, "remove-project", nil, "no longer let `PROJECT` in; may be given several times")
	output := formatFlag(c)
	c.RunE = a.do(func(ctx context.Context, args []string) error {
		return a.saidOfCentre(ctx, args[0], f.wait, output, func(controller *client) (centre apiv1.Centre, raw []byte, err error) {
			ref := apiv1.CentreRef{Centre: args[0]}
			if centre, _, err = apiv1.GetCentre.Call(ctx, controller, ref); err != nil {
				return centre, nil, err
			}
			if err := f.change(&centre.CentreSpec); err != nil {
				return centre, nil, err
			}
			return apiv1.ChangeCentre.Call(ctx, controller, apiv1.ChangeCentreInput{CentreRef: ref, Body: centre.CentreSpec})
		})
	})
	return c
}

// saidOfCentre tells the controller, waits if that is wanted, and prints the centre.
func (a *app) saidOfCentre(ctx context.Context, name string, wait bool, output *format, say func(*client) (apiv1.Centre, []byte, error)) error {
	controller, err := a.connect()
	if err != nil {
		return err
	}
	centre, raw, err := say(controller)
	for wait && err == nil && centre.State == apiv1.CentreNew {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(a.timing.look / 2):
			centre, raw, err = apiv1.GetCentre.Call(ctx, controller, apiv1.CentreRef{Centre: name})
		}
	}
	if err != nil {
		return err
	}
	if err := output.print(a.out, raw, func() { a.printCentre(centre) }); err != nil {
		return err
	}
	if wait && centre.State == apiv1.CentreSilent {
		return errors.New("centre " + name + " does not answer: " + centre.Reason)
	}
	return nil
}

// change writes what the flags say into what is said of a centre.
func (f *centreFlags) change(s *apiv1.CentreSpec) error {
	if f.login != "" {
		s.Login = f.login
	}
	if f.probe != "" {
		s.Probe = f.probe
	}
	if f.hostCA != "" {
		keys, err := publicKeys(f.hostCA)
		if err != nil {
			return err
		}
		if len(keys) != 1 {
			return usage("--host-ca: %s has %d keys, and one is wanted", f.hostCA, len(keys))
		}
		s.HostCA, s.HostKeys = keys[0], nil
	}
	if f.hostKey != "" {
		keys, err := publicKeys(f.hostKey)
		if err != nil {
			return err
		}
		s.HostCA, s.HostKeys = "", keys
	}
	named := map[string]bool{}
	for _, text := range f.projects {
		name, queues, limited := strings.Cut(text, "=")
		p := apiv1.CentreProject{Project: name}
		if limited {
			p.Queues = strings.Split(queues, ",")
		}
		named[name] = true
		i := slices.IndexFunc(s.Projects, func(one apiv1.CentreProject) bool { return one.Project == name })
		if i < 0 {
			if f.as == "" {
				return usage("--as: say as whom people of project %s go there: same, ACCOUNT, or @FILE", name)
			}
			s.Projects = append(s.Projects, p)
			continue
		}
		s.Projects[i].Queues = p.Queues
	}
	for _, name := range f.out {
		n := len(s.Projects)
		if s.Projects = slices.DeleteFunc(s.Projects, func(p apiv1.CentreProject) bool { return p.Project == name }); len(s.Projects) == n {
			return usage("--remove-project: project %s is not let in", name)
		}
	}
	return f.changeAccounts(s, named)
}

// changeAccounts writes the rule of accounts of the projects named, or of all.
func (f *centreFlags) changeAccounts(s *apiv1.CentreSpec, named map[string]bool) error {
	rule, account := apiv1.SharedAccount, ""
	path, listed := strings.CutPrefix(f.as, "@")
	switch {
	case f.as == "":
		return nil
	case f.as == string(apiv1.SameAccount):
		rule = apiv1.SameAccount
	case listed:
		rule = apiv1.ListedAccount
		accounts, err := accountsIn(path)
		if err != nil {
			return err
		}
		s.Accounts = accounts
	default:
		account = f.as
	}
	for i := range s.Projects {
		if p := &s.Projects[i]; named[p.Project] || len(named) == 0 {
			p.Rule, p.Account = string(rule), account
		}
	}
	return nil
}

// linesOf are those of a file that say something, with their numbers.
func linesOf(path string, each func(number int, line string) error) error {
	file, err := os.Open(path)
	if err != nil {
		return usageError{err}
	}
	defer func() { _ = file.Close() }()
	lines := bufio.NewScanner(file)
	for number := 1; lines.Scan(); number++ {
		if line := strings.TrimSpace(lines.Text()); line != "" && !strings.HasPrefix(line, "#") {
			if err := each(number, line); err != nil {
				return err
			}
		}
	}
	if err := lines.Err(); err != nil {
		return usageError{fmt.Errorf("read %s: %w", path, err)}
	}
	return nil
}

// accountsIn reads a file of PERSON=ACCOUNT lines.
func accountsIn(path string) (map[string]string, error) {
	accounts := map[string]string{}
	return accounts, linesOf(path, func(number int, line string) error {
		person, account, found := strings.Cut(line, "=")
		person, account = strings.TrimSpace(person), strings.TrimSpace(account)
		if !found || person == "" || account == "" {
			return usage("%s:%d: %.80q is no line PERSON=ACCOUNT", path, number, line)
		}
		if accounts[person] != "" {
			return usage("%s:%d: %s stands there twice", path, number, person)
		}
		accounts[person] = account
		return nil
	})
}

// publicKeys are a key that was given, or those in a file.
func publicKeys(text string) (keys []string, err error) {
	for _, kind := range []string{"ssh-", "ecdsa-", "sk-"} {
		if strings.HasPrefix(text, kind) && strings.Contains(text, " ") {
			return []string{text}, nil
		}
	}
	err = linesOf(text, func(number int, line string) error {
		if strings.Contains(line, "PRIVATE KEY") {
			return usage("%s:%d: it is a private key, which nobody else should have: give the .pub file", text, number)
		}
		keys = append(keys, line)
		return nil
	})
	if err == nil && len(keys) == 0 {
		err = usage("%s has no key in it", text)
	}
	return keys, err
}
