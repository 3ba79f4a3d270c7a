package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"muster/internal/controller"
)

// defaultData is where a controller keeps its state unless it is told otherwise.
const defaultData = "/var/lib/muster"

// The environment that names the controller.
const (
	envURL   = "MUSTER_URL"
	envToken = "MUSTER_TOKEN"
	envData  = "MUSTER_DATA"
	envDB    = "MUSTER_DB"
)

func dataDir() string {
	if dir := os.Getenv(envData); dir != "" {
		return dir
	}
	return defaultData
}

// connect finds the controller and the token for it: in the environment, in what a login left, or else in the data
// directory of a controller on this host. The local administrator's token is never sent to a URL from the environment.
func (a *app) connect() (*client, error) {
	c, admin, err := a.find()
	if err != nil {
		return nil, err
	}
	if c.token = os.Getenv(envToken); c.token != "" {
		return c, nil
	}
	l, err := readLogin(c.base)
	switch {
	case err == nil && time.Now().After(l.ExpiresAt):
		return nil, fmt.Errorf("your login as %s has ended: `muster login` begins a new one, `muster logout` does without", l.Person)
	case err == nil:
		c.token = l.Token
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	case admin == "":
		return nil, fmt.Errorf("you are not logged in at %s: `muster login` does that, or set %s", c.base, envToken)
	default:
		c.token = admin
	}
	return c, nil
}

// find finds the controller, and the local administrator's token if it is one of this host.
func (a *app) find() (c *client, admin string, err error) {
	address, source := os.Getenv(envURL), envURL
	if address == "" {
		data := dataDir()
		source = filepath.Join(data, "controller.json")
		address, admin, err = controller.Find(data)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil, "", fmt.Errorf("no controller: %s is not there; start one with `muster serve`, or set %s and log in with `muster login`", missing(err, source), envURL)
		case errors.Is(err, fs.ErrPermission):
			return nil, "", fmt.Errorf("no controller: %s is not for you to read; run this as the user who started it, or set %s and log in with `muster login`", missing(err, source), envURL)
		case err != nil:
			return nil, "", fmt.Errorf("find the controller: %w", err)
		}
	}
	base, err := url.Parse(strings.TrimSuffix(address, "/"))
	if err != nil || base.Host == "" || base.Scheme != "http" && base.Scheme != "https" {
		return nil, "", usage("%s: %q is no address like http://127.0.0.1:7420", source, address)
	}
	return &client{base: base, source: source, pauses: a.timing.repeats}, admin, nil
}

// missing is the file that an error is about.
func missing(err error, otherwise string) string {
	var at *fs.PathError
	if errors.As(err, &at) {
		return at.Path
	}
	return otherwise
}
