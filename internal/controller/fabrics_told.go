package controller

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"muster/internal/drivers/fabric/opensm"
	"muster/internal/drivers/fabric/ufm"
	"muster/internal/fabric"
	"muster/internal/private"
	"muster/internal/store"
)

// telling is what a fabric's driver is told: by operators through the API, and by root in the site file, which goes first. The
// drivers run as root here and on managers' hosts, so what operators say leads to no command, no file and no secret but those
// that root has put into the folders below.
type telling struct {
	fabric   store.Fabric
	site     map[string]string // by root
	given    map[string]string // by operators
	signals  private.Dir
	secrets  private.Dir
	fromRows bool // the row is there already: a path in it names a file of that name in secrets.d
}

// value is what is said under a name, and whether root says it.
func (t telling) value(name string) (text string, root bool) {
	if text, root = t.site[name]; root {
		return text, true
	}
	return t.given[name], false
}

// known refuses what a driver does not know.
func (t telling) known(names ...string) error {
	for _, said := range []map[string]string{t.given, t.site} {
		for name := range said {
			if !slices.Contains(names, name) {
				return fmt.Errorf("it knows no %q; it is told %s", name, strings.Join(slices.Sorted(slices.Values(names)), ", "))
			}
		}
	}
	return nil
}

// path is a file on managers' hosts, which only root names if it is not the usual one.
func (t telling) path(name, usual string) (string, error) {
	text, root := t.value(name)
	switch {
	case text == "" || text == usual:
		return usual, nil
	case !strings.HasPrefix(text, "/"):
		return "", fmt.Errorf("%s %q is not a whole path; say where the file is from / on, on the host that has it", name, text)
	case !root:
		return "", t.moved(name, text, fmt.Sprintf("another file than %s", usual))
	}
	return text, nil
}

// moved says that something is root's to say, and where.
func (t telling) moved(name, text, what string) error {
	return fmt.Errorf("%s %.200q: %s is not taken from the API, since the controller is root on its host; root says it in the site file: \"fabrics: {%s: {%s: %q}}\"",
		name, text, what, t.fabric.Name, name, text)
}

// secret reads a secret for a host at each call; nil if none is named.
func (t telling) secret(name, host string) (func() (string, error), error) {
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
			return "", t.missing(name, host, err)
		}
		return s.Text, nil
	}
	_, err = read()
	return read, err
}

// certificates reads who signed a certificate.
func (t telling) certificates(name string) (func() (string, error), error) {
	file, err := t.file(name)
	if err != nil || file == nil {
		return nil, err
	}
	return func() (string, error) {
		pem, err := file.dir.Text(file.name)
		if err != nil {
			return "", t.missing(name, "", err)
		}
		return pem, nil
	}, nil
}

type named struct {
	dir  private.Dir
	name string
}

// file is where what is named lies, nil if nothing is: what root says may be any path, what operators say is a name.
func (t telling) file(name string) (*named, error) {
	text, root := t.value(name)
	whole := strings.HasPrefix(text, "/")
	switch {
	case text == "":
		return nil, nil
	case whole && root:
		return &named{private.Dir(filepath.Dir(text)), filepath.Base(text)}, nil
	case whole && t.fromRows:
		text = filepath.Base(text)
	case whole:
		return nil, fmt.Errorf("%s %.200q is a path; secrets lie in %s, where root puts them, and are named: %s=NAME", name, text, t.secrets, name)
	}
	if err := private.CheckName(text); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return &named{t.secrets, text}, nil
}

// missing adds to an error what root does for a row that is from before there was secrets.d.
func (t telling) missing(name, host string, err error) error {
	text, _ := t.value(name)
	if !errors.Is(err, os.ErrNotExist) || !strings.HasPrefix(text, "/") {
		return fmt.Errorf("%s: %w", name, err)
	}
	hint := fmt.Sprintf("as root, install -m 0600 %s %s", text, filepath.Join(string(t.secrets), filepath.Base(text)))
	if host != "" {
		hint += fmt.Sprintf(", and add the line \"for %s\" to it", host)
	}
	return fmt.Errorf("%s: %w; secrets are read from there alone: %s", name, err, hint)
}

// openOpenSM is a fabric whose subnet managers are opensm processes, here or where ssh leads.
func openOpenSM(scratch string, t telling) (fabric.Driver, error) {
	err := t.known("hosts", "partitions", "log", "signal", "options")
	if err != nil {
		return nil, err
	}
	var s opensm.Site
	s.Hosts, _ = t.value("hosts")
	if s.File, err = t.path("partitions", opensm.DefaultFile); err != nil {
		return nil, err
	}
	if s.Log, err = t.path("log", opensm.DefaultLog); err != nil {
		return nil, err
	}
	if s.Options, err = t.options(); err != nil {
		return nil, err
	}
	signal, root := t.value("signal")
	switch {
	case signal == "" || signal == opensm.DefaultSignal:
	case root && private.CheckName(signal) != nil:
		s.Signal = signal // a command, in root's own words
	case private.CheckName(signal) != nil:
		return nil, fmt.Errorf("signal %.200q: a command is not taken from the API, since it is run as root; root writes it into a file, %s, and that is named: signal=NAME; "+
			"or root says it in the site file: \"fabrics: {%s: {signal: %q}}\"", signal, filepath.Join(string(t.signals), "NAME"), t.fabric.Name, signal)
	default:
		s.Script = func() (string, error) { return t.signals.Text(signal) }
		if _, err := s.Script(); err != nil {
			return nil, fmt.Errorf("signal: %w", err)
		}
	}
	return opensm.Open(scratch, t.fabric.Managers, s)
}

// options are for the programs that read ports; some of theirs read and write any file.
func (t telling) options() (string, error) {
	text, root := t.value("options")
	if root {
		return text, nil
	}
	if err := opensm.CheckOptions(text); err != nil {
		return "", fmt.Errorf("%w: %w", err, t.moved("options", text, "any other"))
	}
	return text, nil
}

// openUFM is a fabric whose subnet manager is NVIDIA's UFM.
func openUFM(_ string, t telling) (fabric.Driver, error) {
	err := t.known("url", "user", "password_file", "token_file", "ca_file", "reader", "options")
	if err != nil {
		return nil, err
	}
	var c ufm.Config
	var root bool
	if c.URL, root = t.value("url"); c.URL == "" {
		return nil, errors.New("it is to be told url, which is where UFM is: https://ufm.example.org")
	}
	c.Elsewhere = !root
	c.User, _ = t.value("user")
	reader, _ := t.value("reader")
	options, err := t.options()
	if err != nil {
		return nil, err
	}
	if options != "" && reader == "" {
		return nil, errors.New("options are for the programs that read ports, and no reader is named; name a host on the fabric, or here")
	}
	if reader != "" {
		if c.Ports, err = opensm.Reader(reader, options); err != nil {
			return nil, err
		}
	}
	host := ""
	if u, err := url.Parse(c.URL); err == nil {
		host = u.Hostname()
	}
	if c.Password, err = t.secret("password_file", host); err != nil {
		return nil, err
	}
	if c.Token, err = t.secret("token_file", host); err != nil {
		return nil, err
	}
	if c.CA, err = t.certificates("ca_file"); err != nil {
		return nil, err
	}
	return ufm.New(c)
}
