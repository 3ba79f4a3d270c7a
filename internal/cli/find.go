package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"

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

// connect finds the controller and the token for it: in the environment, or else in the data directory of a controller on
// this host. The local administrator's token is never sent to a URL from the environment.
func (a *app) connect() (*client, error) {
	address, token, source := os.Getenv(envURL), os.Getenv(envToken), envURL
	if address == "" {
		data := dataDir()
		source = filepath.Join(data, "controller.json")
		found, admin, err := controller.Find(data)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil, fmt.Errorf("no controller: %s is not there; start one with `muster serve`, or set %s and %s", missing(err, source), envURL, envToken)
		case errors.Is(err, fs.ErrPermission):
			return nil, fmt.Errorf("no controller: %s is not for you to read; run this as the user who started it, or set %s and %s", missing(err, source), envURL, envToken)
		case err != nil:
			return nil, fmt.Errorf("find the controller: %w", err)
		}
		address = found
		if token == "" {
			token = admin
		}
	}
	if token == "" {
		return nil, fmt.Errorf("no token: %s is set and %s is not; set both, or neither on the controller's own host", envURL, envToken)
	}
	base, err := url.Parse(strings.TrimSuffix(address, "/"))
	if err != nil || base.Host == "" || base.Scheme != "http" && base.Scheme != "https" {
		return nil, usage("%s: %q is no address like http://127.0.0.1:7420", source, address)
	}
	return &client{base: base, token: token, source: source, pauses: a.timing.repeats}, nil
}

// missing is the file that an error is about.
func missing(err error, otherwise string) string {
	var at *fs.PathError
	if errors.As(err, &at) {
		return at.Path
	}
	return otherwise
}
