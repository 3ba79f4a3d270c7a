package slurm

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"muster/internal/drivers/scheduler/schedulertest"
	"muster/internal/protocol"
)

// nobody is an account of every Debian.
const nobody = "65534"

const unstarted = "the program does not start"

// hook runs one of the scripts that Slurm starts, in a folder of the test's, and returns how it asked Slurm.
func hook(t *testing.T, dir, name, uid string) (asked string) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("it takes root to become somebody else")
	}
	for _, program := range []string{"scontrol", "scancel"} {
		script := "#!/bin/sh\necho " + program + " \"$@\" >> " + dir + "/asked\n"
		if err := os.WriteFile(filepath.Join(dir, program), []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	text := strings.ReplaceAll(hookScripts()[name], hooksDir, dir)
	c := exec.Command("bash", "-c", strings.Replace(text, "PATH=", "PATH="+dir+":", 1))
	c.Env = []string{"SLURM_JOB_ID=7", "SLURM_JOB_UID=" + uid, "PATH=" + os.Getenv("PATH")}
	if name == "task-prolog" { // as the job's user, in its process
		c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		out, err := c.CombinedOutput()
		if err != nil {
			return unstarted
		}
		return string(out)
	}
	if out, err := c.CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("%s: %v %s", name, err, out)
	}
	said, _ := os.ReadFile(dir + "/asked")
	return string(said)
}

func TestAPrologSpeaksToItsJobAloneAndNeverDrainsItsNode(t *testing.T) {
	for name, c := range map[string]struct{ script, said, asked string }{
		"it sets a variable": {"echo export A=1; id -u; pwd; umask; cat; echo aside >&2",
			"export A=1\n" + nobody + "\n/\n0022\n", ""},
		"there is none": {"", "", ""},
		"it fails": {"echo before; printf 'no\\x1b[2J licence' >&2; exit 3", unstarted, `scontrol update jobid=7 ` +
			`admincomment=the project's prolog ended with status 3 on HOST: no [2J licence` + "\nscancel 7\n"},
		"it says much": {"yes export A=1 | head -c 100000; yes 2>&1 | head -c 100000 >&2", strings.Repeat("export A=1\n", 16384/11+1)[:16384],
			""},
		"it cannot be started": {"#!/no/such/program\n", unstarted, "HOST: "},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for d := dir; d != "/tmp" && d != "/"; d = filepath.Dir(d) { // other users do not come in
				if err := os.Chmod(d, 0o755); err != nil {
					t.Fatal(err)
				}
			}
			script := c.script
			if script != "" && !strings.HasPrefix(script, "#!") {
				script = "#!/bin/bash\n" + script
			}
			if err := os.WriteFile(dir+"/project-prolog", []byte(script), 0o755); err != nil {
				t.Fatal(err)
			}
			host, _ := os.Hostname()
			asked, want := hook(t, dir, "prolog", nobody), strings.ReplaceAll(c.asked, "HOST", host)
			if asked != want && (want == "" || !strings.Contains(asked, want)) {
				t.Errorf("Slurm was told %q, want %q", asked, want)
			}
			if said := hook(t, dir, "task-prolog", nobody); said != c.said {
				t.Errorf("the job's programs hear %.80q, want %.80q", said, c.said)
			}
			if hook(t, dir, "epilog", nobody); hook(t, dir, "task-prolog", nobody) != "" {
				t.Error("what the prolog said is there after the job")
			}
			if left, _ := filepath.Glob(dir + "/said*"); len(left) > 0 {
				t.Errorf("left: %v", left)
			}
		})
	}
}

func TestAJobOfRootsRunsNoScriptOfTheProjects(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(dir+"/project-prolog", []byte("#!/bin/sh\ntouch "+dir+"/ran\nexit 1\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	asked := hook(t, dir, "prolog", "0")
	if _, err := os.Stat(dir + "/ran"); err == nil || asked != "" {
		t.Errorf("it ran, and Slurm was told %q", asked)
	}
}

func TestSlurmStartsHooksWhereAProjectHasSome(t *testing.T) {
	if text := Render(Cluster{}); strings.Contains(text, "Prolog") {
		t.Error("without hooks each job would start programs for nothing")
	}
	if text := Render(Cluster{Hooks: true}); !strings.Contains(text, "\nTaskProlog="+hooksDir+"/task-prolog\n") {
		t.Error(text)
	}
	d, written := driver{}, map[string]string{}
	d.Files = schedulertest.NewFiles(t)
	err := d.putHooks(func(name, content string, mode os.FileMode, _ string) bool {
		if written[name] = content; mode != 0o755 {
			t.Errorf("%s: %o", name, mode)
		}
		return true
	}, protocol.Hooks{Prolog: "true", Epilog: "#!/usr/bin/python3\n"})
	if err != nil || len(written) != 5 || written[hooksDir+"/project-prolog"] != "#!/bin/bash\ntrue" ||
		written[hooksDir+"/project-epilog"] != "#!/usr/bin/python3\n" {
		t.Errorf("%v, %q", err, written)
	}
}

func TestJobsHaveFoldersOfTheirOwnWhereAllNodesCanMount(t *testing.T) {
	own, shared := protocol.Peer{Role: protocol.Compute, OwnCPUs: true}, protocol.Peer{Role: protocol.Compute}
	head := protocol.Peer{Role: protocol.Head, OwnCPUs: true}
	d := driver{slurm: version{24, 11, 5}}
	for _, c := range []struct {
		what  string
		peers []protocol.Peer
		want  bool
	}{
		{"no nodes yet", []protocol.Peer{head}, false}, {"a node in namespaces", []protocol.Peer{head, shared}, false},
		{"both", []protocol.Peer{head, own, shared}, false}, {"machines", []protocol.Peer{head, own, own}, true},
		{"they have gone, and will come again", []protocol.Peer{head}, true}, {"another came", []protocol.Peer{shared}, false},
	} {
		if got := d.private(&protocol.Config{Peers: c.peers}); got != c.want {
			t.Errorf("%s: %v", c.what, got)
		}
	}
	old := driver{slurm: version{22, 5, 8}}
	if old.private(&protocol.Config{Peers: []protocol.Peer{own}}) {
		t.Error("nobody has tried that with an older version")
	}
	for _, c := range []struct {
		cluster Cluster
		want    string
	}{{Cluster{}, ""}, {Cluster{Hooks: true}, "PrologFlags=Alloc\n"}, {Cluster{Private: true}, "PrologFlags=Alloc,Contain\n"},
		{Cluster{Private: true, Hooks: true}, "PrologFlags=Alloc,Contain\n"}} {
		text := Render(c.cluster) // Slurm takes no setting twice
		if strings.Count(text, "PrologFlags=") != min(len(c.want), 1) || !strings.Contains(text, c.want) {
			t.Errorf("%+v: %s", c.cluster, text)
		}
	}
}
