package rig

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"time"
)

// explainWithin bounds each question of a failed test.
const explainWithin = 20 * time.Second

// explain logs how the clusters of a test stand that has failed, and what their schedulers say: all of it is gone soon.
func (r *Rig) explain() {
	ask := func(args ...string) string {
		ctx, cancel := context.WithTimeout(context.Background(), explainWithin)
		defer cancel()
		c := exec.CommandContext(ctx, r.Binary, args...)
		c.Env = append(os.Environ(), "MUSTER_DATA="+r.Data, "MUSTER_URL=", "MUSTER_TOKEN=")
		out, _ := c.CombinedOutput() // what there is of it is the answer
		return string(out)
	}
	var list struct {
		Items []struct{ Name, Project string }
	}
	text := ask("list", "-o", "json")
	if json.Unmarshal([]byte(text), &list) != nil {
		r.Logf("its clusters cannot be listed: %s", text)
		return
	}
	const look = "squeue -a; sinfo -N -l; sinfo -R; scontrol show jobs | grep -E 'JobId|State|EndTime'"
	for _, c := range list.Items {
		r.Logf("cluster %s:\n%s\n%s", c.Name, ask("describe", c.Name), ask("ssh", c.Name, "--", look))
	}
}
