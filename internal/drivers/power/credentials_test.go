package power

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"muster/internal/kit/private"
)

const hunter = "hunter2:%d\\n"

func TestCredentialsCannotBePrinted(t *testing.T) {
	c, err := parseCredentials("admin:" + hunter)
	if err != nil || c.User != "admin" || c.Password() != hunter {
		t.Fatal(c.User, err)
	}
	nested := struct {
		hidden Credentials
		Shown  *Credentials
		all    []any
	}{c, &c, []any{c, &c}}
	var out bytes.Buffer
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%d", "%x", "%T"} {
		fmt.Fprintf(&out, verb+verb+verb, c, &c, nested)
	}
	for _, h := range []slog.Handler{slog.NewTextHandler(&out, nil), slog.NewJSONHandler(&out, nil)} {
		slog.New(h).Info("it", "c", c, "p", &c, "nested", nested)
	}
	text, err := json.Marshal([]any{c, &c, map[string]any{"c": c}})
	if err != nil {
		t.Fatal(err)
	}
	out.Write(text)
	if strings.Contains(out.String(), "hunter2") || strings.Contains(out.String(), fmt.Sprintf("%x", "hunter2")) {
		t.Error(out.String())
	}
}

func TestAFileOfCredentials(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text+"\nfor h1\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		return "secret:" + name
	}
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("BMC_TEST", "admin:"+hunter+"\nfor h1")
	t.Setenv("BMC_TEST_BAD", hunter+"\nfor h1")
	cases := map[string]string{ // reference → what the error says; "": none
		file("good", "admin:"+hunter, 0o600):              "",
		file("newline", "admin:"+hunter+"\r\n", 0o400):    "",
		file("group", "admin:"+hunter, 0o640):             "",
		"env:BMC_TEST":                                    "",
		"env:BMC_TEST_BAD":                                "",
		"env:BMC_NONE":                                    "no variable BMC_NONE",
		"secret:none":                                     "no such file",
		file("world", "admin:"+hunter, 0o604):             "chmod 0600",
		file("writable", "admin:"+hunter, 0o620):          "chmod 0600",
		"secret:pipe":                                     "no plain file",
		file("empty", "", 0o600):                          "first line",
		file("nobody", ":"+hunter, 0o600):                 "one line user:password",
		file("bare", "admin", 0o600):                      "one line user:password",
		file("two", "admin:"+hunter+"\nb:c", 0o600):       "below the secret",
		file("zero", "admin:\x00", 0o600):                 "control character",
		file("big", strings.Repeat(hunter, 10000), 0o600): "bytes",
		"":     "one line",
		hunter: "use secret:NAME or env:BMC",
	}
	if os.Geteuid() == 0 {
		stranger := file("stranger", "admin:"+hunter, 0o600)
		if err := os.Chown(filepath.Join(dir, "stranger"), 4242, 0); err != nil {
			t.Fatal(err)
		}
		cases[stranger] = "belongs to user 4242"
	}
	delete(cases, "") // "" is the absence of credentials, which is not read
	for text, why := range cases {
		_, err := Source{text: text, dir: private.Dir(dir), to: "h1"}.Read()
		switch {
		case why == "" && err != nil:
			t.Errorf("%s: %v", text, err)
		case why != "" && (!errors.Is(err, ErrCredentials) || !strings.Contains(err.Error(), why)):
			t.Errorf("%s: %v; it should say %q", text, err, why)
		case err != nil && strings.Contains(err.Error(), "hunter2"):
			t.Errorf("%s: the error tells the password: %v", text, err)
		}
	}
}

// FuzzCredentials: of whatever a file holds, nothing but a whole line of user and password is taken, and no error nor
// text from outside tells the password.
func FuzzCredentials(f *testing.F) {
	for _, seed := range []string{"admin:hunter2", "admin:hunter2\n", "admin:a:b\r\n", ":", "a:", "a\nb:c", "\x00:\x00",
		"a:\xff\xfe", "é:ü"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		c, err := parseCredentials(text)
		if err != nil {
			return
		}
		if c.User == "" || c.Password() == "" || strings.ContainsAny(c.Line(), "\r\n\x00") ||
			c.Line() != strings.TrimRight(text, "\r\n") {
			t.Errorf("%q became %q", text, c.Line())
		}
		const long = 8 // shorter ones are words of their own
		if said := c.Redact("it said " + c.Password() + " and " + c.Line()); len(c.Password()) > long &&
			strings.Contains(said, c.Password()) {
			t.Errorf("%q tells the password", said)
		}
	})
}
