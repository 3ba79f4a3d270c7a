package opensm

import (
	"fmt"
	"strings"

	"muster/internal/drivers/fabric/diags"
	"muster/internal/fabric"
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

// Open makes the driver of a site's fabric. It connects to nothing yet.
func Open(scratch string, managers []fabric.GUID, s Site) (*OpenSM, error) {
	hosts := strings.Split(or(s.Hosts, "here"), ",")
	if len(hosts) != len(managers) {
		return nil, fmt.Errorf("hosts names %d, and the fabric has %d managers; each one needs its own, in the managers' order",
			len(hosts), len(managers))
	}
	c := Config{Scratch: scratch}
	for n, name := range hosts {
		shell, err := diags.ShellOf(strings.TrimSpace(name))
		if err != nil {
			return nil, err
		}
		c.Managers = append(c.Managers, Host{Shell: shell, GUID: managers[n], File: s.File, Logs: s.Log, Signal: s.Signal,
			Script: s.Script})
		if n == 0 {
			c.Observer = diags.Programs{Shell: shell, Options: strings.Fields(s.Options)}
		}
	}
	return New(c)
}
