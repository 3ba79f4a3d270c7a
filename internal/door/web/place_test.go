package web

import (
	"strings"
	"testing"

	"muster/internal/kinds/cluster"
	"muster/internal/spec"
)

func TestAnAppsAddressSaysWhatItIsAndStaysOneLabel(t *testing.T) {
	p := Place{Domain: "apps.example.org", Port: "8443"}
	long := strings.Repeat("a", 30)
	for _, tc := range []struct {
		app, cluster, project string
		want                  string
	}{
		{"jupyter", "cfd", "aero", "jupyter--cfd--aero"},
		{"dash-2", "a-b", "c-d", "dash-2--a-b--c-d"},
		{"x", "a--b", "c", "x--cid"},                            // would be that of cluster a in project b--c
		{"x", "a", "b--c", "x--cid"},                            // would be that of cluster a--b in project c
		{"x", "cfd", "aero.eu", "x--cid"},                       // two labels
		{"x", "cfd", "my_project", "x--cid"},                    // no label
		{"x", long, long + long[:2], "x--cid"},                  // 67 characters
		{"x", long, long[:28], "x--" + long + "--" + long[:28]}, // 63
	} {
		c := cluster.Cluster{ID: "cid", Name: tc.cluster, Project: tc.project}
		host := p.Host(c, tc.app)
		if want := tc.want + ".apps.example.org"; host != want {
			t.Errorf("%s of %s in %s is at %s, want %s", tc.app, tc.cluster, tc.project, host, want)
		}
		if got, ours := p.parse(host + ":8443"); !ours || got.host != host || got.app != tc.app {
			t.Errorf("%s is read as %+v, %v", host, got, ours)
		}
		if got := p.URL(c, tc.app); got != "https://"+host+":8443/" {
			t.Error(got)
		}
	}
}

func TestHostHeadersThatAreOfNoAppAreRefused(t *testing.T) {
	p := Place{Domain: "apps.example.org"}
	for _, header := range []string{
		"", "apps.example.org", ".apps.example.org", "jupyter.apps.example.org", "jupyter--cfd--aero",
		"jupyter--cfd--aero.apps.example.org.", "a--b--c--d.apps.example.org",
		"jupyter--cfd--aero.apps.example.org.evil.example", "jupyter--cfd--aero.evilapps.example.org",
		"x.jupyter--cfd--aero.apps.example.org", "--cfd--aero.apps.example.org",
		"jupyter--cfd--.apps.example.org", "jupyter--cfd--aero@apps.example.org", "jupyter--cfd--aero.apps.example.org/x",
		"[::1]:443", "jup yter--cfd--aero.apps.example.org",
	} {
		if got, ours := p.parse(header); ours {
			t.Errorf("%q is read as %+v", header, got)
		}
	}
	if got, ours := p.parse("Jupyter--CFD--aero.Apps.example.ORG:443"); !ours ||
		got.host != "jupyter--cfd--aero.apps.example.org" || got.ref != "aero/cfd" {
		t.Errorf("%+v, %v", got, ours)
	}
}

// FuzzHost holds the addresses to what keeps tenants apart: what is read is what was written, and two apps never share one.
func FuzzHost(f *testing.F) {
	f.Add("jupyter", "cfd", "aero", "jupyter", "cfd--aero", "b")
	f.Add("x", "a--b", "c", "x", "a", "b--c")
	f.Add("xn", "a", "b", "jupyter--cfd--aero.apps.example.org:99", "", "evil")
	f.Fuzz(func(t *testing.T, app, clusterID, project, app2, cluster2, project2 string) {
		p := Place{Domain: "apps.example.org"}
		if got, ours := p.parse(app2); ours && (got.app == "" || !strings.HasSuffix(got.host, ".apps.example.org") ||
			strings.Count(got.host, ".") != 3) {
			t.Errorf("%q is read as %+v", app2, got)
		}
		if !possible(app, clusterID, project) || !possible(app2, cluster2, project2) {
			return
		}
		one, two := p.Host(cluster.Cluster{ID: "caaaaaaaaaa", Name: clusterID, Project: project}, app),
			p.Host(cluster.Cluster{ID: "cbbbbbbbbbb", Name: cluster2, Project: project2}, app2)
		if one == two && (app != app2 || clusterID != cluster2 || project != project2) {
			t.Errorf("%s/%s/%s and %s/%s/%s are both at %s", project, clusterID, app, project2, cluster2, app2, one)
		}
		if got, ours := p.parse(one); !ours || got.host != one || got.app != app {
			t.Errorf("%s is read as %+v, %v", one, got, ours)
		}
	})
}

// possible says whether a cluster file may say this.
func possible(app, cluster, project string) bool {
	_, err := spec.Parse("", []byte("name: "+quote(cluster)+"\nproject: "+quote(project)+"\nnodes: 1\naccess: {apps: [{name: "+
		quote(app)+", port: 1}]}\n"))
	return err == nil
}

func quote(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(s) + `"`
}
