package opensm

import (
	"context"
	"fmt"
	"strings"

	"muster/internal/fabric"
	"muster/internal/kit/pattern"
)

// Site says in an operator's words where a fabric's managers are.
type Site struct {
	// Hosts has one for each manager, in the managers' order, with commas between them: "here" for the controller's own, or
	// whatever ssh takes for another, such as root@sm2. "": here. The first one's adapter is the one that looks at the fabric.
	Hosts   string
	File    string // "": DefaultFile; on all hosts
	Log     string // "": DefaultLog
	Signal  string // "": DefaultSignal
	Options string // for the diagnostic programs, with spaces between them
	// Script reads a script that is run instead of Signal; nil: there is none.
	Script func() (string, error)
}

// Open makes the driver of a site's fabric. It asks nobody yet.
func Open(scratch string, managers []fabric.GUID, s Site) (*OpenSM, error) {
	hosts := strings.Split(or(s.Hosts, "here"), ",")
	if len(hosts) != len(managers) {
		return nil, fmt.Errorf("hosts names %d, and the fabric has %d managers; each one needs its own, in the managers' order", len(hosts), len(managers))
	}
	c := Config{Scratch: scratch}
	for n, name := range hosts {
		shell, err := shellOf(strings.TrimSpace(name))
		if err != nil {
			return nil, err
		}
		c.Managers = append(c.Managers, Host{Shell: shell, GUID: managers[n], File: s.File, Logs: s.Log, Signal: s.Signal, Script: s.Script})
		if n == 0 {
			c.Observer = Diags{Shell: shell, Options: strings.Fields(s.Options)}
		}
	}
	return New(c)
}

// Reader reads every port's table from the port itself, as fabric.Driver.Observe does, for drivers whose manager is no
// opensm: from a host on the fabric, "here" or whatever ssh takes, with options for the diagnostic programs. It asks nobody
// yet.
func Reader(host, options string) (func(context.Context) (fabric.Tables, error), error) {
	shell, err := shellOf(host)
	if err != nil {
		return nil, err
	}
	observer := Diags{Shell: shell, Options: strings.Fields(options)}
	return func(ctx context.Context) (fabric.Tables, error) {
		snapshot, err := observer.Snapshot(ctx)
		if err != nil {
			return nil, err
		}
		return observer.Tables(ctx, snapshot)
	}, nil
}

// hostForm is what ssh takes for a host and no shell, and nothing that ssh passes the name to, takes for anything else.
var hostForm = pattern.New(`^(ssh://)?([A-Za-z0-9_][A-Za-z0-9_.-]*@)?(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9][A-Za-z0-9.:-]*)$`)

// CheckOptions says which options for the diagnostic programs choose an adapter or have patience, and name no file: some of
// theirs read or write any.
func CheckOptions(options string) error {
	words := strings.Fields(options)
	for i := 0; i < len(words); i += 2 {
		switch words[i] {
		case "-C", "--Ca", "-P", "--Port", "-t", "--timeout":
		default:
			return fmt.Errorf("option %q is not among -C ADAPTER, -P PORT and -t MILLISECONDS", words[i])
		}
		if i+1 == len(words) || !wordForm.MatchString(words[i+1]) {
			return fmt.Errorf("option %s is to be followed by a name or a number", words[i])
		}
	}
	return nil
}

var wordForm = pattern.New(`^[A-Za-z0-9][A-Za-z0-9_.-]*$`)

// shellOf is the shell of a host: ssh must get in with a key, and without a question.
func shellOf(host string) (Shell, error) {
	switch {
	case host == "here":
		return here, nil
	case !hostForm.MatchString(host):
		return nil, fmt.Errorf("%q is no host; name one as ssh does, such as root@sm2, or here", host)
	}
	return Shell{"ssh", "-oBatchMode=yes", "-oConnectTimeout=10", "-oForwardAgent=no", "-oClearAllForwardings=yes",
		"--", host, "sh", "-s"}, nil
}
