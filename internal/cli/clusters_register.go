package cli

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	apiv1 "muster/api/v1"
	"muster/internal/kit/clock"
)

// externalFlags is what a command says of an external cluster. What is not said stays as it is.
type externalFlags struct {
	login, hostCA, hostKey, as, probe string
	projects, out                     []string
	wait                              bool
}

func (f *externalFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&f.login, "login", "", "where its sshd is, `HOST[:PORT]`")
	c.Flags().StringVar(&f.hostCA, "host-ca", "", "the public `KEY|FILE` of the CA that signs its host keys")
	c.Flags().StringVar(&f.hostKey, "host-key", "",
		"its public host `KEY|FILE`; a file may hold several, as ssh-keyscan prints them")
	c.Flags().StringVar(&f.as, "as", "", "the account that people get there, the `RULE`: same, ACCOUNT, or @FILE")
	c.Flags().StringArrayVar(&f.projects, "project", nil,
		"admit `PROJECT[=QUEUE,QUEUE]` to these queues, or to all; may be repeated")
	c.Flags().StringVar(&f.probe, "probe", "", "the `ACCOUNT` there that queries the queues (default muster)")
	c.Flags().BoolVar(&f.wait, "wait", false, "wait for its first answer; exit code 1 if it does not answer")
	c.MarkFlagsMutuallyExclusive("host-ca", "host-key")
}

const ruleOfAccounts = `Account rules: same gives all people their own name; ACCOUNT is one account shared by all of the project and used by no other
project; @FILE names a file with one line PERSON=ACCOUNT per person.`

func (a *app) clustersRegister() *cobra.Command {
	c := &cobra.Command{
		Use:   "register NAME",
		Short: "Register a cluster that Muster did not build",
		Long: `Register a centre's batch system, so that owners and members of the given projects reach it through the gateway and see its
queues. Its sshd must trust the key that ` + "`muster clusters ca`" + ` prints. The login host proves itself by its host key: get that from the
centre, or by ssh-keyscan over a network that you trust.

` + ruleOfAccounts + `

Once a minute Muster logs in there with the account of --probe, which needs no privileges, and asks Slurm or PBS for the queues.`,
		Example: `  muster clusters register arc --login arc.example.org --host-key arc.keys --as same --project aero=cpu,gpu --project bio --wait
  muster clusters register old --login 192.0.2.7:2222 --host-ca ca.pub --as hpc_aero --project aero`,
		Args: cobra.ExactArgs(1),
	}
	var f externalFlags
	f.add(c)
	output := formatFlag(c)
	return a.verb(c, func(ctx context.Context, args []string) error {
		if f.login == "" || f.hostCA == "" && f.hostKey == "" || f.as == "" || len(f.projects) == 0 {
			return usage("--login, --host-ca or --host-key, --as and --project are needed")
		}
		body := apiv1.AddExternalClusterBody{Name: args[0]}
		if err := f.change(&body.ExternalClusterSpec); err != nil {
			return err
		}
		cluster, raw, err := apiv1.AddExternalCluster.Call(ctx, a, apiv1.AddExternalClusterInput{Body: body})
		if err != nil {
			return err
		}
		return a.showExternal(ctx, cluster, raw, f.wait, output)
	})
}

func (a *app) clustersSet() *cobra.Command {
	c := &cobra.Command{
		Use:   "set NAME",
		Short: "Change a registered cluster",
		Long: `Change a registered cluster; what no flag names stays. --project admits a project or changes its queues; --as applies to the
projects named with it or, without any, to all. Without flags nothing changes, and the cluster is probed again. Sessions that are
no longer allowed end.

` + ruleOfAccounts,
		Example: `  muster clusters set arc --project bio=gpu --as hpc_bio
  muster clusters set arc --remove-project bio
  muster clusters set arc --wait`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: a.completeFirst(a.externalNames),
	}
	var f externalFlags
	f.add(c)
	c.Flags().StringArrayVar(&f.out, "remove-project", nil, "no longer admit `PROJECT`; may be repeated")
	output := formatFlag(c)
	return a.verb(c, func(ctx context.Context, args []string) error {
		ref := apiv1.ExternalClusterRef{ExternalCluster: args[0]}
		cluster, _, err := apiv1.GetExternalCluster.Call(ctx, a, ref)
		if err != nil {
			return err
		}
		if err := f.change(&cluster.ExternalClusterSpec); err != nil {
			return err
		}
		cluster, raw, err := apiv1.ChangeExternalCluster.Call(ctx, a,
			apiv1.ChangeExternalClusterInput{ExternalClusterRef: ref, Body: cluster.ExternalClusterSpec})
		if err != nil {
			return err
		}
		return a.showExternal(ctx, cluster, raw, f.wait, output)
	})
}

// showExternal waits until the external cluster has been looked at, if that is wanted, and prints it.
func (a *app) showExternal(ctx context.Context, cluster apiv1.ExternalCluster, raw []byte, wait bool, output *format) error {
	for wait && cluster.State == apiv1.ExternalClusterNew {
		err := clock.Sleep(ctx, a.timing.look/2)
		if err == nil {
			cluster, raw, err = apiv1.GetExternalCluster.Call(ctx, a, apiv1.ExternalClusterRef{ExternalCluster: cluster.Name})
		}
		if err != nil {
			return err
		}
	}
	if err := output.print(a.out, raw, func() { a.printExternal(cluster) }); err != nil {
		return err
	}
	if wait && cluster.State == apiv1.ExternalClusterSilent {
		return errors.New(cluster.Reason)
	}
	return nil
}

// change writes what the flags say into what is said of an external cluster.
func (f *externalFlags) change(s *apiv1.ExternalClusterSpec) error {
	s.Login, s.Probe = cmp.Or(f.login, s.Login), cmp.Or(f.probe, s.Probe)
	if f.hostCA != "" {
		keys, err := publicKeys(f.hostCA)
		if err != nil {
			return err
		}
		if len(keys) != 1 {
			return usage("--host-ca: %s has %d keys; give exactly one", f.hostCA, len(keys))
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
		p := apiv1.ExternalClusterProject{Project: name}
		if limited {
			p.Queues = strings.Split(queues, ",")
		}
		named[name] = true
		i := slices.IndexFunc(s.Projects, func(one apiv1.ExternalClusterProject) bool { return one.Project == name })
		if i < 0 {
			if f.as == "" {
				return usage("--as is missing: give the account rule of project %s: same, ACCOUNT, or @FILE", name)
			}
			s.Projects = append(s.Projects, p)
			continue
		}
		s.Projects[i].Queues = p.Queues
	}
	for _, name := range f.out {
		n := len(s.Projects)
		if s.Projects = slices.DeleteFunc(s.Projects, func(p apiv1.ExternalClusterProject) bool {
			return p.Project == name
		}); len(s.Projects) == n {
			return usage("--remove-project: project %s is not admitted", name)
		}
	}
	return f.changeAccounts(s, named)
}

// changeAccounts writes the rule of accounts of the projects named, or of all.
func (f *externalFlags) changeAccounts(s *apiv1.ExternalClusterSpec, named map[string]bool) error {
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
			return usage("%s:%d: %.80q is not PERSON=ACCOUNT", path, number, line)
		}
		if accounts[person] != "" {
			return usage("%s:%d: %s is listed twice", path, number, person)
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
			return usage("%s:%d: this is a private key, which must stay private: give the .pub file", text, number)
		}
		keys = append(keys, line)
		return nil
	})
	if err == nil && len(keys) == 0 {
		err = usage("%s has no key in it", text)
	}
	return keys, err
}
