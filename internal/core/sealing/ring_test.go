package sealing_test

import (
	"bytes"
	"encoding/base64"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"muster/internal/core/sealing"
)

func line(b byte) string {
	return base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{b}, 32)) + "\n"
}

func loaded(t *testing.T, r *sealing.Ring) *sealing.Ring {
	t.Helper()
	if err := r.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	return r
}

func TestABoxTellsNothingAndOpensWhereItBelongs(t *testing.T) {
	r := loaded(t, sealing.Text("# a comment\n\n"+line(1)+line(2)))
	first, second := r.IDs()[0], r.IDs()[1]
	box, err := r.Seal(t.Context(), first, "cluster.credential c1", []byte("the secret"))
	if err != nil {
		t.Fatal(err)
	}
	again, err := r.Seal(t.Context(), first, "cluster.credential c1", []byte("the secret"))
	if err != nil || again == box {
		t.Error("the same secret gives the same box", err)
	}
	if sealing.KeyOf(box) != first || !strings.HasPrefix(box, sealing.Of(first)) {
		t.Error(box)
	}
	if plain, err := r.Open(t.Context(), "cluster.credential c1", box); err != nil || string(plain) != "the secret" {
		t.Errorf("%q %v", plain, err)
	}
	last := box[len(box)-2]
	for what, wrong := range map[string][2]string{
		"another row":    {"cluster.credential c2", box},
		"another column": {"cluster.name c1", box},
		"another key":    {"cluster.credential c1", strings.Replace(box, first, second, 1)},
		"a changed byte": {"cluster.credential c1", box[:len(box)-2] + string(last^1) + box[len(box)-1:]},
		"a part":         {"cluster.credential c1", box[:len(box)-8]},
		"nothing":        {"cluster.credential c1", sealing.Of(first)},
		"clear text":     {"cluster.credential c1", "the secret"},
	} {
		if plain, err := r.Open(t.Context(), wrong[0], wrong[1]); err == nil {
			t.Errorf("%s: %q", what, plain)
		} else if strings.Contains(err.Error(), "the secret") {
			t.Errorf("%s: the error tells it", what)
		}
	}
	if _, err := loaded(t, sealing.Text(line(2))).
		Open(t.Context(), "cluster.credential c1", box); !errors.Is(err, sealing.ErrNoKey) ||
		!strings.Contains(err.Error(), first) {
		t.Error(err)
	}
}

func TestAKeyThatWasAddedElsewhereIsFound(t *testing.T) {
	path := filepath.Join(t.TempDir(), "site.key")
	mine, theirs := sealing.File(path, true), sealing.File(path, true)
	if err := mine.Create(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := theirs.Create(t.Context()); err != nil { // both start at the same time
		t.Fatal(err)
	}
	if mine.IDs()[0] != theirs.IDs()[0] {
		t.Fatal("two controllers have two keys")
	}
	if err := theirs.Add(t.Context()); err != nil {
		t.Fatal(err)
	}
	box, err := theirs.Seal(t.Context(), theirs.IDs()[0], "p", []byte("s"))
	if err != nil {
		t.Fatal(err)
	}
	if plain, err := mine.Open(t.Context(), "p", box); err != nil || string(plain) != "s" {
		t.Error(err)
	}
	if err := mine.Keep(t.Context(), theirs.IDs()[0]); err != nil || len(mine.IDs()) != 1 || mine.IDs()[0] != theirs.IDs()[0] {
		t.Error(mine.IDs(), err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Error(info.Mode(), err)
	}
}

func TestAKeyThatOthersCanReadIsRefused(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "key")
	write := func(text string, mode os.FileMode) {
		t.Helper()
		if err := errors.Join(os.WriteFile(path, []byte(text), 0o600), os.Chmod(path, mode)); err != nil {
			t.Fatal(err)
		}
	}
	refused := func(r *sealing.Ring, why string) {
		t.Helper()
		err := r.Load(t.Context())
		if err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%v, want %q", err, why)
		}
		if err != nil && strings.Contains(err.Error(), strings.TrimSpace(line(1))) {
			t.Error("the error tells the key")
		}
	}
	refused(sealing.File(path, false), "no such file")
	write(line(1), 0o644)
	refused(sealing.File(path, false), "chmod 600")
	write("hunter2\n", 0o600)
	refused(sealing.File(path, false), "line 1 is no key")
	write(line(1), 0o600)
	loaded(t, sealing.File(path, false))
	if os.Geteuid() == 0 {
		if err := os.Chown(path, 12345, 0); err != nil {
			t.Fatal(err)
		}
		refused(sealing.File(path, false), "belongs to user 12345")
	}
	refused(sealing.File(dir, false), "not a regular file")
}

func TestAProgramSaysTheKey(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("programs of root's are not tested: this needs root")
	}
	dir, err := os.MkdirTemp("/root", "muster-key-") // root's alone, down from /
	if err != nil {
		t.Skip("programs of root's are not tested:", err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	path := filepath.Join(dir, "key")
	write := func(script string) {
		t.Helper()
		if err := os.WriteFile(path, []byte("#!/bin/sh\n"+script), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("MUSTER_DB", "postgres://muster:hunter2@db")
	write(`[ -z "$MUSTER_DB" ] && echo ` + line(7))
	if r := loaded(t, sealing.Command(path)); len(r.IDs()) != 1 || r.IDs()[0] != loaded(t, sealing.Text(line(7))).IDs()[0] {
		t.Error(r.IDs())
	}
	for script, why := range map[string]string{
		"echo the KMS is away >&2; exit 3\n": `says "the KMS is away"`,
		"true\n":                             "printed nothing",
		"echo hunter2\n":                     "line 1 is no key",
		"yes\n":                              "key command",
	} {
		write(script)
		if err := sealing.Command(path).Load(t.Context()); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%q: %v", script, err)
		}
	}
	if err := os.Chmod(path, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := sealing.Command(path).Load(t.Context()); err == nil ||
		!strings.Contains(err.Error(), "changed by others than root") {
		t.Error(err)
	}
	for _, wrong := range []string{"key", dir, filepath.Join(dir, "none"), dir + "/../key"} {
		if err := sealing.Command(wrong).Load(t.Context()); err == nil {
			t.Errorf("%s ran", wrong)
		}
	}
}
