package power

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"unicode"

	"muster/internal/kit/pattern"
	"muster/internal/kit/private"
)

// variableName is that of variables that were made for this: the others may hold what no BMC is to see.
var variableName = pattern.New(`^BMC[A-Za-z0-9_]*$`)

// Credentials are read when they are used and forgotten afterwards. The password is behind a function: package fmt prints
// fields of nested structs whatever their methods say, but of a function it only knows the address. The zero value is none.
type Credentials struct {
	User     string
	password func() string
}

// Given says that there are any.
func (c Credentials) Given() bool { return c.password != nil }

// Password is in the clear.
func (c Credentials) Password() string { return c.password() }

// Format prints that there is something, whatever the verb.
func (Credentials) Format(f fmt.State, _ rune) { io.WriteString(f, "(credentials)") }

// LogValue is Format for package slog.
func (Credentials) LogValue() slog.Value { return slog.StringValue("(credentials)") }

// MarshalText is Format for encoders.
func (Credentials) MarshalText() ([]byte, error) { return []byte("(credentials)"), nil }

// Line is the form in which credentials are stored and handed on.
func (c Credentials) Line() string { return c.User + ":" + c.password() }

// Redact takes the password out of a text that came from outside, and makes the text fit for one line of a log: a BMC
// or a program may repeat what it was sent.
func (c Credentials) Redact(text string) string {
	if c.Given() {
		text = strings.NewReplacer(
			c.password(), "(password)",
			base64.StdEncoding.EncodeToString([]byte(c.Line())), "(credentials)",
			base64.StdEncoding.EncodeToString([]byte(c.password())), "(password)",
		).Replace(text)
	}
	text = strings.Join(strings.FieldsFunc(text, func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) }), " ")
	if runes := []rune(text); len(runes) > 200 {
		text = string(runes[:200]) + "…"
	}
	return text
}

// validateSource says what is wrong with inventory.Power.Credentials; "" is right.
func validateSource(reference string) error {
	kind, name, _ := strings.Cut(reference, ":")
	switch {
	case reference == "":
		return nil
	case kind == "secret":
		if err := private.CheckName(name); err != nil {
			return fmt.Errorf("credentials: %w; write secret:NAME, and have NAME in secrets.d of the data directory", err)
		}
		return nil
	case kind == "file": // who may enrol machines need not be who may read the controller's files
		return fmt.Errorf("credentials: %.200q is a path; credentials lie in secrets.d of the data directory, where root puts "+
			"them, and are named: secret:NAME", name)
	case kind == "env" && variableName.MatchString(name):
		return nil
	case kind == "env":
		return errors.New("credentials: env: needs the name of a variable of the controller's environment that begins with " +
			"BMC, as env:BMC_RACK1")
	}
	return errors.New("credentials: use secret:NAME or env:BMC…") // the text may be a password that went astray
}

// Source is where credentials are, and whom they are for. The zero value is nowhere.
type Source struct {
	text string
	dir  private.Dir
	to   string // a host, or "command:PROGRAM"
}

// Given says that credentials are set.
func (s Source) Given() bool { return s.text != "" }

// String is the source as the machine's settings name it.
func (s Source) String() string { return s.text }

// Read fetches "user:password" from where the reference says, if root has said that it may be shown there. Its errors are
// ErrCredentials and hold no part of them.
func (s Source) Read() (Credentials, error) {
	if err := validateSource(s.text); err != nil {
		return Credentials{}, fmt.Errorf("%w: %w", ErrCredentials, err)
	}
	kind, name, _ := strings.Cut(s.text, ":")
	var secret private.Secret
	var err error
	if kind == "env" {
		value, ok := os.LookupEnv(name)
		if !ok {
			return Credentials{}, fmt.Errorf("%w: the controller's environment has no variable %s", ErrCredentials, name)
		}
		if secret, err = private.ParseSecret(value); err != nil {
			err = fmt.Errorf("%s: %w", s.text, err)
		}
	} else {
		secret, err = s.dir.Secret(name)
	}
	if err != nil {
		return Credentials{}, fmt.Errorf("%w: %w", ErrCredentials, err)
	}
	c, err := parseCredentials(secret.Text)
	if err == nil {
		err = secret.Allows(s.to)
	}
	if err != nil {
		return Credentials{}, fmt.Errorf("%w: %s: %w", ErrCredentials, s.text, err)
	}
	return c, nil
}

// parseCredentials reads one line "user:password". The user has no colon, the password may.
func parseCredentials(text string) (Credentials, error) {
	text = strings.TrimSuffix(strings.TrimSuffix(text, "\n"), "\r")
	user, password, ok := strings.Cut(text, ":")
	switch {
	case strings.ContainsFunc(text, unicode.IsControl):
		return Credentials{}, errors.New("more than one line, or a control character; one line user:password is needed")
	case !ok || user == "" || password == "":
		return Credentials{}, errors.New("one line user:password is needed")
	}
	return Credentials{User: user, password: func() string { return password }}, nil
}
