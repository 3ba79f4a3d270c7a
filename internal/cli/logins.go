package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"muster/internal/kit/files"
	"muster/internal/kit/wrap"
)

// savedLogin is what a login left on this host, for one controller.
type savedLogin struct {
	Controller string    `json:"controller"`
	ID         string    `json:"id"` // of the token
	Token      string    `json:"token"`
	Person     string    `json:"person"`
	ExpiresAt  time.Time `json:"expires_at"`
	Key        string    `json:"key,omitempty"`      // the certificate that lies in the ssh-agent
	KeyFile    string    `json:"key_file,omitempty"` // or where the key was written
}

// loginPath is the file for one controller, for its user alone, below the user's configuration directory.
func loginPath(controller *url.URL) (string, error) {
	dir, err := os.UserConfigDir()
	if err != nil {
		return "", fmt.Errorf("there is no place to keep a login: %w", err)
	}
	return filepath.Join(dir, "muster", "logins", url.PathEscape(controller.String())+".json"), nil
}

// readLogin reads the login at a controller; fs.ErrNotExist if there is none.
func readLogin(controller *url.URL) (l savedLogin, err error) {
	path, err := loginPath(controller)
	if err != nil {
		return l, fmt.Errorf("%w (%w)", fs.ErrNotExist, err)
	}
	text, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(text, &l)
	}
	if err != nil {
		return l, fmt.Errorf("read the login at %s: %w", controller, err)
	}
	return l, nil
}

// save writes the login whole or not at all.
func (l savedLogin) save(controller *url.URL) error {
	path, err := loginPath(controller)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("keep the login: %w", err)
	}
	text, err := json.Marshal(l)
	if err != nil {
		return err
	}
	return wrap.Errorf(files.Write(path, append(text, '\n'), 0o600), "keep the login")
}

// forget removes what the login left on this host: its file, and its key from the ssh-agent or from where it was written.
func (l savedLogin) forget(controller *url.URL) error {
	path, err := loginPath(controller)
	if err != nil {
		return err
	}
	return errors.Join(l.forgetKey(), os.Remove(path))
}
