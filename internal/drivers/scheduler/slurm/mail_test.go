package slurm

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"muster/internal/drivers/scheduler/schedulertest"
	"muster/internal/protocol"
)

func TestALetterIsAFileOfThreeLines(t *testing.T) {
	dir := t.TempDir()
	leave := func(subject, to string) error {
		c := exec.Command("bash", "-c", strings.ReplaceAll(mailScript, protocol.MailDir, dir), "mail", "-s", subject, to)
		c.Env = []string{"SLURM_JOB_USER=ada", "PATH=" + os.Getenv("PATH")}
		return c.Run()
	}
	if err := leave("Job 7 $(id)\n`id` ended", "ada\neve"); err != nil {
		t.Fatal(err)
	}
	files, _ := filepath.Glob(dir + "/*" + protocol.MailName)
	if len(files) != 1 {
		t.Fatalf("%v", files)
	}
	if text, err := os.ReadFile(files[0]); err != nil || string(text) != "ada eve\nada\nJob 7 $(id) `id` ended\n" {
		t.Errorf("%q, %v", text, err)
	}
	for i := range 999 {
		if err := os.WriteFile(fmt.Sprintf("%s/%d%s", dir, i, protocol.MailName), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := leave("one too many", "ada"); err == nil {
		t.Error("letters have no bound")
	}
}

func TestAHeadSendsMailWhereTheSiteDoes(t *testing.T) {
	for _, domains := range [][]string{nil, {"example.org", "example.com"}} {
		d := driver{Host: schedulertest.Host(schedulertest.NewFiles(t))}
		put := func(name, content string, mode os.FileMode, owner string) bool {
			changed, err := d.Files.Write(name, []byte(content), mode, owner)
			if err != nil {
				t.Fatal(err)
			}
			return changed
		}
		if err := d.putMail(put, &protocol.Config{MailTo: domains}); err != nil {
			t.Fatal(err)
		}
		text, _ := d.Files.Read(mailDomains)
		if d.Files.Exists(mailProgram) != (domains != nil) || !slices.Equal(strings.Fields(text), domains) {
			t.Errorf("%v: %q", domains, text)
		}
	}
}
