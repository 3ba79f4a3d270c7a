package e2e_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"muster/test/rig"
)

// TestSparkRunsOnAPlainCluster follows docs/user-built-clusters.md: a user brings a scheduler, and is root nowhere.
func TestSparkRunsOnAPlainCluster(t *testing.T) {
	files := os.Getenv("MUSTER_TEST_SPARK")
	if files == "" {
		t.Skip("Spark is not tried: it is a download of 480 MB; `make spark-test` does it")
	}
	r := rig.New(t, "")
	c := r.Start()
	r.Run("machines", "add", "--local", "4", "--wait")
	examples := filepath.Join(rig.Root(t), "examples")
	r.Run("create", "-f", filepath.Join(examples, "spark.yaml"), "--wait")

	install := exec.Command(filepath.Join(examples, "spark.sh"), "install", "spark")
	install.Env = append(os.Environ(), "MUSTER_DATA="+r.Data, "SPARK_FILES="+files, "PATH="+filepath.Dir(r.Binary)+":"+
		os.Getenv("PATH"))
	if out, err := install.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	t.Log(r.Run("ssh", "spark", "--", "./spark.sh start"))
	if out := r.Run("ssh", "spark", "--", "./spark.sh workers"); strings.Count(out, "worker-") != 3 {
		t.Errorf("the master's page lists\n%s", out)
	}
	got := r.Muster("ssh", "spark", "--", "./spark.sh count")
	t.Log(got.Out)
	for _, want := range []string{"counted [0-9]+ on n1\n", "counted [0-9]+ on n2\n", "counted [0-9]+ on n3\n",
		"counted 6000000 in all\n"} {
		if !regexp.MustCompile(want).MatchString(got.Out) {
			t.Errorf("no %q in\n%s%s", want, got.Out, got.Err)
		}
	}
	r.Run("ssh", "spark", "--", "./spark.sh stop")
	r.Until("all of Spark has ended", func() bool {
		return r.Run("ssh", "spark", "--", "for n in head n1 n2 n3; do ssh $n pgrep -x java; done; true") == ""
	})
	r.Run("delete", "spark", "--wait")
	r.NothingLeft()
	c.Stop()
}
