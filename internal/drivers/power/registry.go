package power

import (
	"errors"
	"fmt"
	"strings"

	"muster/internal/inventory"
	"muster/internal/kit/lists"
	"muster/internal/kit/wrap"
)

// maxControl bounds what is taken from outside, in bytes.
const maxControl = 2048

// Registry is the drivers that there are. Nothing changes it.
type Registry []Factory

// Parse reads an inventory.Power.Control strictly. Its errors repeat nothing that could be a password.
func (r Registry) Parse(control string) (Control, error) {
	_, c, err := r.parse(control)
	return c, err
}

func (r Registry) parse(control string) (Factory, Control, error) {
	f, c, err := r.read(control)
	return f, c, wrap.Errorf(err, "power control")
}

func (r Registry) read(control string) (Factory, Control, error) {
	if len(control) > maxControl {
		return Factory{}, nil, fmt.Errorf("longer than %d bytes", maxControl)
	}
	f, known := r.find(control)
	switch {
	case control == "":
		return f, nil, fmt.Errorf("missing; use %s", r.usage())
	case !known:
		return f, nil, fmt.Errorf("unknown kind; use %s", r.usage())
	}
	c, err := f.Parse(control[len(f.Scheme):])
	return f, c, wrap.Errorf(err, "%s", f.Scheme)
}

// find is the driver of a control's scheme.
func (r Registry) find(control string) (Factory, bool) {
	scheme, _, _ := strings.Cut(control, ":")
	return lists.Find(r, func(f Factory) bool { return f.Scheme == scheme })
}

// usage is how controls are written, for people.
func (r Registry) usage() string {
	all := lists.Map(r, func(f Factory) string { return f.Usage })
	if last := len(all) - 1; last > 0 {
		return strings.Join(all[:last], ", ") + " or " + all[last]
	}
	return strings.Join(all, "")
}

// Usages is how controls are written at the least, one a driver.
func (r Registry) Usages() string {
	all := lists.Map(r, func(f Factory) string { return f.Usage })
	return strings.Join(all, ", ")
}

// Help is a paragraph of all kinds of control, for a command's help.
func (r Registry) Help() string {
	const indent, column = "  ", 28
	var all strings.Builder
	for _, f := range r {
		between := " "
		if len(f.Form) > column {
			between = "\n" + strings.Repeat(" ", len(indent)+column+1)
		}
		fmt.Fprintf(&all, "%s%-*s%s%s\n", indent, column, f.Form, between, f.About)
	}
	return all.String()
}

// Capabilities are those of a control's kind; none, if there is no such kind.
func (r Registry) Capabilities(control string) Capabilities {
	f, _ := r.find(control)
	return f.Capabilities
}

// Validate says what is wrong with power settings that somebody gives a machine. It opens and asks nothing.
func (r Registry) Validate(p inventory.Power) error {
	_, err := r.check(p)
	return err
}

func (r Registry) check(p inventory.Power) (Control, error) {
	f, control, err := r.parse(p.Control)
	if err != nil {
		return nil, err
	}
	switch need := f.Capabilities.Credentials; {
	case need == Never && p.Credentials != "":
		return nil, fmt.Errorf("credentials: %s has none; leave them out", f.Title)
	case need == Required && p.Credentials == "":
		return nil, fmt.Errorf("credentials: %s needs them; use secret:NAME or env:BMC…", f.Title)
	}
	return control, validateSource(p.Credentials)
}

// Open makes the driver that a machine's power settings ask for. It connects to nothing, so its errors are errors of the
// settings. A driver may be used by several goroutines and needs no closing. What it is asked ends within ten seconds, and its
// errors say what was tried. It is an Accountant, whatever its kind.
func (r Registry) Open(s Site, t Target) (Driver, error) {
	driver, err := r.open(s, t)
	return driver, wrap.Errorf(err, "machine %s", t.Machine)
}

func (r Registry) open(s Site, t Target) (Driver, error) {
	control, err := r.check(t.Power)
	if err != nil {
		return nil, err
	}
	driver, err := control.Open(Opening{
		Target: t, Programs: s.Programs, Credentials: Source{text: t.Power.Credentials, dir: s.Secrets, to: control.To()},
	})
	if err != nil {
		f, _ := r.find(t.Power.Control)
		return nil, fmt.Errorf("%s: %w", f.Scheme, err)
	}
	if driver == nil {
		return nil, errors.New("its power control makes no driver")
	}
	return bounded{driver: driver, control: control.String()}, nil
}
