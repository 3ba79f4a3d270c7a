package slurm

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"muster/internal/drivers/scheduler/schedulertest"
)

// TestRanksOfAJobOfSeveralComponentsHaveTheirNodes runs the script with programs that print what they are given.
func TestRanksOfAJobOfSeveralComponentsHaveTheirNodes(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"scontrol": "#!/bin/sh\necho $3 | tr , '\\n'\n",
		"mpirun":   commandBegins + strings.ReplaceAll(commands()["mpirun"], "exec /usr/bin/mpirun", "echo $OMPI_MCA_plm"),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		env  []string
		want string
	}{
		{nil, "-np 2 ./a b c"},
		{[]string{"SLURM_HET_SIZE=2", "SLURM_JOB_NODELIST_HET_GROUP_0=n1", "SLURM_TASKS_PER_NODE_HET_GROUP_0=1",
			"SLURM_JOB_NODELIST_HET_GROUP_1=n2,n3,n4", "SLURM_TASKS_PER_NODE_HET_GROUP_1=2(x2),1"},
			"rsh --host n1:1,n2:2,n3:2,n4:1 -np 2 ./a b c"},
	} {
		cmd := exec.CommandContext(t.Context(), filepath.Join(dir, "mpirun"), "-np", "2", "./a", "b c")
		cmd.Env = append(c.env, "PATH="+dir+":"+os.Getenv("PATH"))
		out, err := cmd.CombinedOutput()
		if got := strings.TrimSpace(string(out)); err != nil || got != c.want {
			t.Errorf("%v: %q, not %q: %v", c.env, got, c.want, err)
		}
	}
}

func TestACommandThatAnImageBringsStays(t *testing.T) {
	files := schedulertest.NewFiles(t)
	const own = "#!/bin/sh\n# of the image\n"
	if _, err := files.Write("/usr/local/bin/sbatch", []byte(own), 0o755, ""); err != nil {
		t.Fatal(err)
	}
	put := map[string]string{}
	open(schedulertest.Host(files)).putCommands(func(name, content string) { put[name] = content })
	if _, found := put["/usr/local/bin/sbatch"]; found || len(put) != len(commands())-1 {
		t.Errorf("%v", put)
	}
}
