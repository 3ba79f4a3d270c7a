package opensm

import (
	"fmt"
	"path/filepath"

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
	var s Site
	s.Hosts, _ = t.Value("hosts")
	s.File, _ = t.Value("partitions")
	s.Log, _ = t.Value("log")
	var err error
	if s.Options, err = t.Checked("options", diags.CheckOptions); err != nil {
		return nil, err
	}
	signal, root := t.Value("signal")
	switch {
	case signal == "" || signal == DefaultSignal:
	case root && private.CheckName(signal) != nil:
		s.Signal = signal // a command, in root's own words
	case private.CheckName(signal) != nil:
		return nil, fmt.Errorf("signal %.200q: a command is not taken from the API, since it is run as root; root writes it "+
			"into a file, %s, and that is named: signal=NAME; "+
			"or root says it in the site file: \"fabrics: {%s: {signal: %q}}\"", signal, filepath.Join(string(t.Signals), "NAME"),
			t.Fabric, signal)
	default:
		s.Script = func() (string, error) { return t.Signals.Text(signal) }
		if _, err := s.Script(); err != nil {
			return nil, fmt.Errorf("signal: %w", err)
		}
	}
	return Open(t.Scratch, t.Managers, s)
}
