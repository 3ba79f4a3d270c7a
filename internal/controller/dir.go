package controller

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"muster/internal/environment/identity"
)

// dir is the data directory, for root alone.
//
//	muster.db         the store, unless it is PostgreSQL
//	admin.token       the local administrator's token
//	controller.json   where the controller listens, for command lines on this host
//	site              which store this directory belongs to
//	images/           environment images by name and digest
//	local/            state of the nodes on this host
//	guests/           state of the virtual machines of this host
//	sockets/          where agents on this host reach the controllers
//	power.d/          a site's own programs that switch machines
//	recordings/       what terminals showed, of projects that keep that
//	fabrics/          copies of fabrics that drivers make to try what they are about to tell; nobody misses them
//	ipxe/             a site's own iPXE files, before those of the system
type dir string

func (d dir) path(name string) string { return filepath.Join(string(d), name) }
func (d dir) database() string        { return d.path("muster.db") }
func (d dir) images() string          { return d.path("images") }
func (d dir) local() string           { return d.path("local") }
func (d dir) guests() string          { return d.path("guests") }
func (d dir) sockets() string         { return d.path("sockets") }
func (d dir) commands() string        { return d.path("power.d") }
func (d dir) recordings() string      { return d.path("recordings") }
func (d dir) fabrics() string         { return d.path("fabrics") }

func (d dir) make() error {
	for _, path := range []string{string(d), d.sockets(), d.fabrics()} {
		if err := os.MkdirAll(path, 0o700); err != nil {
			return fmt.Errorf("data directory: %w", err)
		}
	}
	return nil
}

// token reads the administrator's token, the first time making it. Replicas that start together agree on one.
func (d dir) token() (string, error) {
	return d.keep("admin.token", func() string {
		var random [32]byte
		_, _ = rand.Read(random[:])
		return "muster_" + base64.RawURLEncoding.EncodeToString(random[:])
	})
}

// keep reads a small secret file, the first time writing what made returns.
func (d dir) keep(name string, made func() string) (string, error) {
	path := d.path(name)
	for {
		text, err := os.ReadFile(path)
		if err == nil {
			return strings.TrimSpace(string(text)), nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return "", fmt.Errorf("data directory: %w", err)
		}
		if err := d.write(name, []byte(made()+"\n"), os.Link); err != nil && !errors.Is(err, fs.ErrExist) {
			return "", err
		}
	}
}

// write makes a file of mode 0600 appear whole under its name, by os.Rename (replaces) or os.Link (keeps what is there).
func (d dir) write(name string, text []byte, publish func(from, to string) error) error {
	temporary, err := os.CreateTemp(string(d), "."+name+"-*")
	if err != nil {
		return fmt.Errorf("data directory: %w", err)
	}
	defer func() { _ = os.Remove(temporary.Name()) }()
	_, err = temporary.Write(text)
	if err := errors.Join(err, temporary.Sync(), temporary.Close()); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return publish(temporary.Name(), d.path(name))
}

// belongTo refuses a directory that was made by a controller with another database.
func (d dir) belongTo(a *identity.Authority) error {
	owner, err := d.keep("site", a.UserCA)
	if err == nil && owner != a.UserCA() {
		err = fmt.Errorf("data directory %s belongs to another database; give --db that one, or another --data", string(d))
	}
	return err
}

// Announcement is what controller.json says.
type Announcement struct {
	URL string `json:"url"`
	PID int    `json:"pid"`
	SSH string `json:"ssh,omitempty"` // where the SSH gateway is reached: host:port
}

func (d dir) announce(url, ssh string) error {
	text, err := json.Marshal(Announcement{url, os.Getpid(), ssh})
	if err != nil {
		return err
	}
	return d.write("controller.json", append(text, '\n'), os.Rename)
}

// Find reads where the controller of a data directory listens, and its administrator's token.
func Find(data string) (url, token string, err error) {
	d := dir(data)
	text, err := os.ReadFile(d.path("controller.json"))
	if err != nil {
		return "", "", err
	}
	var a Announcement
	if err := json.Unmarshal(text, &a); err != nil {
		return "", "", fmt.Errorf("%s: %w", d.path("controller.json"), err)
	}
	secret, err := os.ReadFile(d.path("admin.token"))
	return a.URL, strings.TrimSpace(string(secret)), err
}
