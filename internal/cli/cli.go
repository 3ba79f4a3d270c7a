// Package cli is the command line: one file a verb.
//
// What enters: arguments, the environment (MUSTER_URL, MUSTER_TOKEN, MUSTER_DATA, MUSTER_DB, NO_COLOR), standard input.
// What leaves: requests to the API, words for people on standard error, data on standard output, and an exit code.
//
// Verbs for tenants use nothing but the API. Those for the controller's own host (serve, images build …) work on its data
// directory. The program is also the first process of every node, and many nodes start at once: only the verb that is asked for
// is built, and colours and widths come from x/ansi, as lipgloss looks the terminal up before main begins.
package cli

import (
	"context"
	"io"
	"os"
	"runtime/debug"

	"github.com/spf13/cobra"

	"muster/internal/hostd"
)

// app is one run of the program.
type app struct {
	in       io.Reader
	out, err *screen
	self     func() (string, error) // path of this program
	timing   timing
	acting   bool    // a verb's action has begun: what fails from here on is no error of usage
	insecure bool    // the token may go to another host in clear
	file     string  // name of the cluster file that was read: places in what is wrong are in it
	client   *client // once the controller is found
}

// verb is a command that is built when it is asked for.
type verb struct {
	name  string
	group string
	build func(*app) *cobra.Command
}

// Groups of verbs in the help.
const (
	forClusters  = "clusters"
	forFiles     = "files"
	forOperators = "operators"
	forOthers    = "others"
)

func verbs() []verb {
	return []verb{
		{"create", forClusters, (*app).create},
		{"apply", forClusters, (*app).apply},
		{"plan", forClusters, (*app).plan},
		{"list", forClusters, (*app).list},
		{"get", forClusters, (*app).get},
		{"describe", forClusters, (*app).describe},
		{"scale", forClusters, (*app).scale},
		{"pause", forClusters, (*app).pause},
		{"resume", forClusters, (*app).resume},
		{"snapshot", forClusters, (*app).snapshot},
		{"snapshots", forClusters, (*app).snapshots},
		{"rollout", forClusters, (*app).rollout},
		{"extend", forClusters, (*app).extend},
		{"delete", forClusters, (*app).delete},
		{"events", forClusters, (*app).events},
		{"ssh", forClusters, (*app).ssh},
		{"ssh-config", forClusters, (*app).sshConfig},
		{"sessions", forClusters, (*app).sessions},
		{"run", forClusters, (*app).runOn},
		{"tasks", forClusters, (*app).tasks},
		{"jobs", forClusters, (*app).jobs},
		{"efficiency", forClusters, (*app).efficiency},
		{"bench", forClusters, (*app).bench},
		{"open", forClusters, (*app).open},
		{"console", forClusters, (*app).console},
		{"keys", forClusters, (*app).keys},
		{"cost", forClusters, (*app).cost},
		{"projects", forClusters, (*app).projects},
		{"quota", forClusters, (*app).quota},
		{"calendar", forClusters, (*app).calendar},

		{"gpus", forClusters, (*app).gpus},

		{"validate", forFiles, (*app).validate},
		{"expand", forFiles, (*app).expand},
		{"spec", forFiles, (*app).spec},

		{"serve", forOperators, (*app).serve},
		{"status", forOperators, (*app).status},
		{"alarms", forOperators, (*app).alarms},
		{"users", forOperators, (*app).users},
		{"gateway", forOperators, (*app).gateway},
		{"secrets", forOperators, (*app).secrets},
		{"audit", forOperators, (*app).audit},
		{"machines", forOperators, (*app).machines},
		{"networks", forOperators, (*app).networks},
		{"fabric", forOperators, (*app).fabric},
		{"clusters", forOperators, (*app).clusters},
		{"classes", forOperators, (*app).classes},
		{"images", forOperators, (*app).images},
		{"rack", forOperators, (*app).rack},

		{"tokens", forOthers, (*app).tokens},
		{"login", forOthers, (*app).login},
		{"logout", forOthers, (*app).logout},
		{"whoami", forOthers, (*app).whoami},
		{"version", forOthers, (*app).version},
		{"completion", forOthers, (*app).completion},
		{"agent", "", (*app).agent},
		{hostd.Verb, "", (*app).host},
		{"tunnel", "", (*app).tunnel},
	}
}

// Execute runs one command line to its end, or until ctx ends, and returns the program's exit code.
func Execute(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	a := &app{in: stdin, out: &screen{stdout}, err: &screen{stderr}, self: os.Executable, timing: usualTiming()}
	return a.run(ctx, args)
}

func (a *app) run(ctx context.Context, args []string) int {
	root := a.root(args)
	root.SetArgs(args)
	failed, err := root.ExecuteContextC(ctx)
	return a.report(failed, err)
}

// root builds the command tree: the one verb that args begin with, or all of them when that is not clear, as for help,
// completion and misspelt verbs.
func (a *app) root(args []string) *cobra.Command {
	root := &cobra.Command{
		Use:   "muster",
		Short: "Self-service HPC clusters",
		Long: `Muster turns racks of machines into self-service HPC clusters: ask for nodes, and get a tested Slurm + MPI cluster at one
address. One binary is the controller, the command line and the nodes' agent.

MUSTER_URL names the controller, MUSTER_TOKEN you, or what ` + "`muster login`" + ` left. Without them, on the controller's own host,
the administrator's token in the data directory is used (MUSTER_DATA, or ` + defaultData + `).

Exit codes: 0 ok, 2 invalid input, 3 no capacity, 4 quota or budget, 5 conflict, 6 not found, 1 anything else.`,
		Example: `  muster create hello --nodes 3 --wait
  muster ssh hello
  muster delete hello --wait`,
		Version:           Version(),
		SilenceUsage:      true,
		SilenceErrors:     true,
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
	}
	root.PersistentFlags().BoolVar(&a.insecure, "insecure", false,
		"send the token to another host in clear text, over http://; or MUSTER_INSECURE=1")
	_ = root.PersistentFlags().MarkHidden("insecure") // the error that asks for it names it
	root.SetIn(a.in)
	root.SetOut(a.out.prose())
	root.SetErr(a.err.prose())
	root.SetVersionTemplate("muster {{.Version}}\n")
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	root.AddGroup(
		&cobra.Group{ID: forClusters, Title: "Clusters:"},
		&cobra.Group{ID: forFiles, Title: "Cluster files:"},
		&cobra.Group{ID: forOperators, Title: "For operators:"},
		&cobra.Group{ID: forOthers, Title: "Others:"},
	)
	root.SetHelpFunc(a.help)
	root.SetHelpCommandGroupID(forOthers)
	all := verbs()
	for _, v := range all {
		if len(args) > 0 && args[0] == v.name {
			all = []verb{v}
			break
		}
	}
	for _, v := range all {
		command := v.build(a)
		command.GroupID = v.group
		root.AddCommand(command)
		countArguments(command)
	}
	return root
}

// action is what a verb does.
type action func(ctx context.Context, args []string) error

// do makes an action of a command.
func (a *app) do(act action) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, args []string) error {
		a.acting = true
		return act(c.Context(), args)
	}
}

// verb makes a command carry out an action.
func (a *app) verb(c *cobra.Command, act action) *cobra.Command {
	c.RunE = a.do(act)
	return c
}

// group is a command that only holds others.
func group(c *cobra.Command, under ...*cobra.Command) *cobra.Command {
	c.Args = func(c *cobra.Command, args []string) error {
		if len(args) > 0 {
			return unknownCommand(c, args[0])
		}
		return nil
	}
	c.RunE = func(c *cobra.Command, _ []string) error { return c.Help() }
	c.AddCommand(under...)
	return c
}

// Version is what the build knows of itself: a tag, or a time and a commit.
func Version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" || info.Main.Version == "(devel)" {
		return "devel"
	}
	return info.Main.Version
}
