package gateway

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"muster/internal/core"
	"muster/internal/kinds/person"
)

func TestWhatATerminalShowsIsKeptWhereTheProjectWantsIt(t *testing.T) {
	s := newFixture(t, nil)
	s.update(s.g.DB, func(ctx context.Context, tx *core.Tx) error {
		return person.ChangeProject(ctx, tx, person.Project{Name: "aero", Recorded: true})
	})
	session, err := s.client("cfd").NewSession()
	if err != nil {
		t.Fatal(err)
	}
	if err := session.RequestPty("xterm", 40, 132, nil); err != nil {
		t.Fatal(err)
	}
	var errs bytes.Buffer
	session.Stdin, session.Stderr = strings.NewReader("grüße\n"), &errs
	if err := session.Run("echo"); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(errs.String(), "this session is recorded as s") {
		t.Errorf("the person is told %q", errs.String())
	}
	var files []string
	if files, err = filepath.Glob(filepath.Join(s.g.Recordings, "*.cast")); err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	text, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{`"width":132`, `"height":40`, `"version":2`, `"o","grüße\n"`} {
		if !strings.Contains(string(text), part) {
			t.Errorf("no %s in %s", part, text)
		}
	}
	if info, err := os.Stat(files[0]); err != nil || info.Mode().Perm() != 0o600 {
		t.Error(info.Mode(), err)
	}
}
