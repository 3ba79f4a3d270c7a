package external

import (
	"context"
	"crypto/rand"
	_ "embed"
	"encoding/base64"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"muster/internal/identity"
	externals "muster/internal/kinds/external"
	"muster/internal/kinds/task"
	"muster/internal/kit/printable"
	"muster/internal/kit/shell"
	"muster/internal/kit/words"
	"muster/internal/protocol"
)

// Door is the way to external clusters. It asks them for their queues as the account that each names for that, and has tasks run
// there as jobs of the people who asked for them: Muster logs in as they would, each time again.
type Door struct{ Authority *identity.Authority }

//go:embed job.sh
var jobScript string

const (
	unhurried = time.Minute // how long one call may take, with the output of a job
	mostSaid  = 64 << 10    // bytes of what a call says beside the output
	mostNodes = 4096        // of a job
	mostOfAll = protocol.MostTaskOutput + mostSaid
)

// Follow has a task begun that has not been, ended if that is wanted, and says how far it is; once it has ended, with what it
// has written, up to protocol.MostTaskOutput. The task's ID, RUN.NUMBER, names the job, so that a call that is repeated begins
// no second one; what a task has left there goes with the next of its run, or by Forget. An error says that nothing is known now.
func (d Door) Follow(ctx context.Context, c externals.Cluster, project string, t task.Task) (task.Said, []byte, error) {
	mark := strings.ToLower(rand.Text())
	minutes := int(math.Ceil(t.Work.Limit.Minutes())) + 1
	cancel := ""
	if t.Cancel {
		cancel = "1"
	}
	var b strings.Builder
	for _, v := range [][2]string{{"mark", mark}, {"id", t.ID}, {"queue", t.Work.Queue}, {"nodes", strconv.Itoa(t.Work.Nodes)},
		{"minutes", strconv.Itoa(minutes)}, {"reservation", t.Work.Reservation}, {"cancel", cancel},
		{"most", strconv.Itoa(protocol.MostTaskOutput)}, {"script", base64.StdEncoding.EncodeToString([]byte(t.Work.Script))}} {
		fmt.Fprintf(&b, "%s=%s\n", v[0], shell.Quoted(v[1]))
	}
	text, err := d.call(ctx, c, project, t.Account, b.String()+jobScript)
	if err != nil {
		return task.Said{}, nil, err
	}
	return readJob(mark, text)
}

// Forget removes what a run's tasks have left. A second call does nothing.
func (d Door) Forget(ctx context.Context, c externals.Cluster, project, person, run string) error {
	_, err := d.call(ctx, c, project, person, "rm -rf -- \"$HOME/.muster-bench/\""+shell.Quoted(run)+
		".*; rmdir -- \"$HOME/.muster-bench\" 2>/dev/null; exit 0\n")
	return err
}

// call has bash run a script as a person there, in a login shell: at many external clusters programs are on the PATH of such a
// shell alone.
func (d Door) call(ctx context.Context, c externals.Cluster, project, person, script string) (string, error) {
	p, _ := c.Of(project)
	account := c.Account(p, person)
	if account == "" {
		return "", fmt.Errorf("%s has no account at external cluster %s", person, c.Name)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, unhurried, fmt.Errorf("no answer within %s", unhurried))
	defer cancel()
	way, err := Way(d.Authority, c, person, account)
	if err != nil {
		return "", err
	}
	text, complaint, err := command(ctx, way, "exec bash -ls", script, mostOfAll)
	if err != nil {
		return "", errors.New(Why(c, account, err) + strings.TrimSuffix(": "+lastLine(complaint), ": "))
	}
	return text, nil
}

// readJob reads what job.sh says: lines that begin with the mark, and after the last of them the output.
func readJob(mark, text string) (said task.Said, output []byte, err error) {
	for {
		_, after, found := strings.Cut(text, "\n@"+mark+" ")
		if !found {
			break
		}
		line, rest, _ := strings.Cut(after, "\n")
		text = after[len(line):] // from the line break on
		what, more, _ := strings.Cut(line, " ")
		switch more = printable.Within(more, mostSaid); what {
		case "silent":
			return said, nil, fmt.Errorf("its batch system does not answer: %s", clean(more, 200))
		case "refused":
			said.Stage, said.Outcome, said.Text = protocol.TaskEnded, protocol.TaskFailed, clean(more, 200)
		case "waits":
			said.Stage, said.Text = protocol.TaskWaits, clean(more, 200)
		case "told":
			said.Text = clean(more, 40)
		case "down":
			if lost := strings.Fields(clean(more, 2000)); len(lost) > 0 {
				said.Text = words.Were(lost, "down") + strings.TrimSuffix(": "+said.Text, ": ")
			}
		case "runs":
			said.Stage = protocol.TaskRuns
		case "ended":
			said.Stage, said.Outcome = protocol.TaskEnded, protocol.TaskOutcome(more)
			if !ends(said.Outcome) {
				return said, nil, fmt.Errorf("a job ended in a way that nobody knows: %.20q", more)
			}
		case "job":
			said.Job = clean(more, 40)
		case "nodes":
			if said.Nodes = strings.Fields(more); len(said.Nodes) > mostNodes {
				said.Nodes = said.Nodes[:mostNodes]
			}
		case "began":
			said.Began = instant(more)
		case "exit":
			status, at, _ := strings.Cut(more, " ")
			if n, err := strconv.ParseUint(status, 10, 8); err == nil {
				exit := int(n)
				said.Exit, said.Ended = &exit, instant(at)
			}
		case "output":
			output = []byte(rest)
			text = ""
		}
	}
	switch {
	case said.Stage == "":
		return said, nil, errors.New("the account's shell there does not run commands")
	case (said.Stage == protocol.TaskEnded) != (said.Outcome != ""):
		return said, nil, errors.New("a job has ended, and has not")
	}
	return said, output, nil
}

func ends(o protocol.TaskOutcome) bool {
	switch o {
	case protocol.TaskOK, protocol.TaskFailed, protocol.TaskTimedOut, protocol.TaskCancelled, protocol.TaskLost:
		return true
	}
	return false
}

// instant reads bash's EPOCHREALTIME; the zero time, if it is none.
func instant(text string) time.Time {
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || v < 0 || v > math.MaxInt32*2 {
		return time.Time{}
	}
	return time.UnixMicro(int64(v * 1e6))
}
