package power

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"unicode"
)

// maxCredentials bounds a file of credentials, in bytes.
const maxCredentials = 1024

var variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// credentials are read when they are used and forgotten afterwards. The password is behind a function: package fmt prints
// fields of nested structs whatever their methods say, but of a function it only knows the address.
type credentials struct {
	user     string
	password func() string
}

// Format prints that there is something, whatever the verb.
func (credentials) Format(f fmt.State, _ rune) { io.WriteString(f, "(credentials)") }

// LogValue is Format for package slog.
func (credentials) LogValue() slog.Value { return slog.StringValue("(credentials)") }

// MarshalText is Format for encoders.
func (credentials) MarshalText() ([]byte, error) { return []byte("(credentials)"), nil }

// line is the form in which credentials are stored and handed on.
func (c credentials) line() string { return c.user + ":" + c.password() }

// redact takes the password out of a text that came from outside, and makes the text fit for one line of a log: a BMC
// or a program may repeat what it was sent.
func (c credentials) redact(text string) string {
	if c.password != nil {
		text = strings.NewReplacer(
			c.password(), "(password)",
			base64.StdEncoding.EncodeToString([]byte(c.line())), "(credentials)",
			base64.StdEncoding.EncodeToString([]byte(c.password())), "(password)",
		).Replace(text)
	}
	text = strings.Join(strings.FieldsFunc(text, func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) }), " ")
	if runes := []rune(text); len(runes) > 200 {
		text = string(runes[:200]) + "…"
	}
	return text
}

// validateReference says what is wrong with inventory.Power.Credentials; "" is right.
func validateReference(reference string) error {
	kind, name, _ := strings.Cut(reference, ":")
	switch {
	case reference == "":
		return nil
	case kind == "file" && filepath.IsAbs(name) && filepath.Clean(name) == name && !strings.ContainsRune(name, 0):
		return nil
	case kind == "file":
		return errors.New("credentials: file: needs an absolute, clean path, as file:/etc/muster/bmc")
	case kind == "env" && variableName.MatchString(name):
		return nil
	case kind == "env":
		return errors.New("credentials: env: needs the name of a variable of the controller's environment, as env:BMC")
	}
	return errors.New("credentials: use file:/PATH or env:NAME") // the text may be a password that went astray
}

// readCredentials fetches "user:password" from where the reference says. Its errors are ErrCredentials and hold no part
// of them.
func readCredentials(reference string) (credentials, error) {
	if err := validateReference(reference); err != nil {
		return credentials{}, fmt.Errorf("%w: %w", ErrCredentials, err)
	}
	kind, name, _ := strings.Cut(reference, ":")
	var text string
	if kind == "env" {
		value, ok := os.LookupEnv(name)
		if !ok {
			return credentials{}, fmt.Errorf("%w: the controller's environment has no variable %s", ErrCredentials, name)
		}
		text = value
	} else {
		read, err := readPrivate(name)
		if err != nil {
			return credentials{}, fmt.Errorf("%w: %w", ErrCredentials, err)
		}
		text = read
	}
	c, err := parseCredentials(text)
	if err != nil {
		return credentials{}, fmt.Errorf("%w: %s: %w", ErrCredentials, reference, err)
	}
	return c, nil
}

// parseCredentials reads one line "user:password". The user has no colon, the password may.
func parseCredentials(text string) (credentials, error) {
	text = strings.TrimSuffix(strings.TrimSuffix(text, "\n"), "\r")
	user, password, ok := strings.Cut(text, ":")
	switch {
	case strings.ContainsFunc(text, unicode.IsControl):
		return credentials{}, errors.New("more than one line, or a control character; one line user:password is needed")
	case !ok || user == "" || password == "":
		return credentials{}, errors.New("one line user:password is needed")
	}
	return credentials{user: user, password: func() string { return password }}, nil
}

// readPrivate reads a small file that nobody else may read or write. It looks at the open file, so that nothing can be
// changed in between, and opens it without waiting, so that a pipe cannot hold it.
func readPrivate(name string) (string, error) {
	file, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return "", err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return "", err
	}
	owner := info.Sys().(*syscall.Stat_t).Uid
	switch mode := info.Mode(); {
	case !mode.IsRegular():
		return "", fmt.Errorf("%s is no regular file", name)
	case owner != 0 && int(owner) != os.Geteuid():
		return "", fmt.Errorf("%s belongs to user %d; it must belong to root or to the controller's user: chown root %s", name, owner, name)
	case mode.Perm()&0o027 != 0:
		return "", fmt.Errorf("%s has mode %04o; others may not read it, nor anyone else write it: chmod 0600 %s", name, mode.Perm(), name)
	case info.Size() > maxCredentials:
		return "", fmt.Errorf("%s has %d bytes; one line user:password is needed", name, info.Size())
	}
	text, err := io.ReadAll(io.LimitReader(file, maxCredentials))
	return string(text), err
}
