package fabrics

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"muster/internal/fabric"
	"muster/internal/kit/lists"
	"muster/internal/kit/private"
	"muster/internal/kit/wrap"
)

// Directives is what a fabric's driver is told: by operators through the API, and by root in the site file, which goes first. The
// drivers run as root here and on managers' hosts, so what operators say leads to no command, no file and no secret but those
// that root has put into the folders below.
type Directives struct {
	Fabric   string            // name
	Managers []fabric.GUID     // ports of all that may manage the subnet
	Root     map[string]string // what root says
	Given    map[string]string // what operators say
	Scratch  string            // where a driver may keep what may be lost
	Signals  private.Dir
	Secrets  private.Dir

	settings []Setting
}

// Value is what is said under a name, and whether root says it. A file that is not named is the usual one.
func (t Directives) Value(name string) (text string, root bool) {
	if text, root = t.Root[name]; !root {
		text = t.Given[name]
	}
	if i := slices.IndexFunc(t.settings, func(s Setting) bool { return s.Name == name }); text == "" && i >= 0 {
		text = t.settings[i].File
	}
	return text, root
}

// check refuses what a driver does not know, and files that are not for operators to name.
func (t Directives) check() error {
	names := lists.Map(t.settings, func(s Setting) string { return s.Name })
	for _, said := range []map[string]string{t.Given, t.Root} {
		for name := range said {
			if !slices.Contains(names, name) {
				return fmt.Errorf("it knows no %q; it is told %s", name, strings.Join(slices.Sorted(slices.Values(names)), ", "))
			}
		}
	}
	for _, s := range t.settings {
		text, root := t.Value(s.Name)
		switch {
		case text == s.File || s.File == "":
		case !strings.HasPrefix(text, "/"):
			return fmt.Errorf("%s %q is not a whole path; say where the file is from / on, on the host that has it", s.Name, text)
		case !root:
			return t.Moved(s.Name, text, fmt.Sprintf("another file than %s", s.File))
		}
	}
	return nil
}

// Checked is what is said under a name: in root's own words, or such as check lets operators say.
func (t Directives) Checked(name string, check func(string) error) (string, error) {
	text, root := t.Value(name)
	if root {
		return text, nil
	}
	if err := check(text); err != nil {
		return "", fmt.Errorf("%w: %w", err, t.Moved(name, text, "any other"))
	}
	return text, nil
}

// Moved says that something is root's to say, and where.
func (t Directives) Moved(name, text, what string) error {
	return fmt.Errorf("%s %.200q: %s is not taken from the API, since the controller is root on its host; root says it in the "+
		"site file: \"fabrics: {%s: {%s: %q}}\"",
		name, text, what, t.Fabric, name, text)
}

// Secret reads a secret for a host at each call; nil if none is named.
func (t Directives) Secret(name, host string) (func() (string, error), error) {
	file, err := t.file(name)
	if err != nil || file == nil {
		return nil, err
	}
	read := func() (string, error) {
		s, err := file.dir.Secret(file.name)
		if err == nil {
			err = s.Allows(host)
		}
		if err != nil {
			return "", fmt.Errorf("%s: %w", name, err)
		}
		return s.Text, nil
	}
	_, err = read()
	return read, err
}

// Certificates reads who signed a certificate.
func (t Directives) Certificates(name string) (func() (string, error), error) {
	file, err := t.file(name)
	if err != nil || file == nil {
		return nil, err
	}
	return func() (string, error) {
		pem, err := file.dir.Text(file.name)
		return pem, wrap.Errorf(err, "%s", name)
	}, nil
}

type named struct {
	dir  private.Dir
	name string
}

// file is where what is named lies, nil if nothing is: what root says may be any path, what operators say is a name.
func (t Directives) file(name string) (*named, error) {
	text, root := t.Value(name)
	whole := strings.HasPrefix(text, "/")
	switch {
	case text == "":
		return nil, nil
	case whole && root:
		return &named{private.Dir(filepath.Dir(text)), filepath.Base(text)}, nil
	case whole:
		return nil, fmt.Errorf("%s %.200q is a path; secrets lie in %s, where root puts them, and are named: %s=NAME", name, text,
			t.Secrets, name)
	}
	if err := private.CheckName(text); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return &named{t.Secrets, text}, nil
}
