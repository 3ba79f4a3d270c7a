package opensm

import (
	"cmp"
	"fmt"
	"path/filepath"
	"strings"

	fabrics "muster/internal/drivers/fabric"
	"muster/internal/drivers/fabric/diags"
	"muster/internal/fabric"
	"muster/internal/kit/private"
)

// Factory declares the driver of fabrics whose subnet managers are opensm processes, here or where ssh leads.
func Factory() fabrics.Factory {
	return fabrics.Factory{
		Name: "opensm",
		Settings: []fabrics.Setting{
			{Name: "hosts"}, {Name: "partitions", File: DefaultFile}, {Name: "log", File: DefaultLog}, {Name: "signal"},
			{Name: "options"},
		},
		Open: open,
	}
}

func open(t fabrics.Directives) (fabric.Driver, error) {
	options, err := t.Checked("options", diags.CheckOptions) // for the diagnostic programs, with spaces between them
	if err != nil {
		return nil, err
	}
	var h Host // what the managers' hosts have in common
	h.File, _ = t.Value("partitions")
	h.Logs, _ = t.Value("log")
	signal, root := t.Value("signal")
	switch {
	case signal == "" || signal == DefaultSignal:
	case root && private.CheckName(signal) != nil:
		h.Signal = signal // a command, in root's own words
	case private.CheckName(signal) != nil:
		return nil, fmt.Errorf("signal %.200q: a command is not taken from the API, since it is run as root; root writes it "+
			"into a file, %s, and that is named: signal=NAME; "+
			"or root says it in the site file: \"fabrics: {%s: {signal: %q}}\"", signal, filepath.Join(string(t.Signals), "NAME"),
			t.Fabric, signal)
	default:
		h.Script = func() (string, error) { return t.Signals.Text(signal) }
		if _, err := h.Script(); err != nil {
			return nil, fmt.Errorf("signal: %w", err)
		}
	}
	// Whatever ssh takes for a host, such as root@sm2, or "here" for the controller's own. The first one's adapter is the one
	// that looks at the fabric.
	named, _ := t.Value("hosts")
	hosts := strings.Split(cmp.Or(named, "here"), ",")
	if len(hosts) != len(t.Managers) {
		return nil, fmt.Errorf("hosts names %d, and the fabric has %d managers; each one needs its own, in the managers' order",
			len(hosts), len(t.Managers))
	}
	c := Config{Scratch: t.Scratch}
	for n, name := range hosts {
		if h.Shell, err = diags.ShellOf(strings.TrimSpace(name)); err != nil {
			return nil, err
		}
		h.GUID = t.Managers[n]
		c.Managers = append(c.Managers, h)
		if n == 0 {
			c.Observer = diags.Programs{Shell: h.Shell, Options: strings.Fields(options)}
		}
	}
	return New(c)
}
