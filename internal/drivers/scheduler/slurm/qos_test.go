package slurm

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"muster/internal/protocol"
)

func TestQOSAreThoseOfTheFileAndRootsAreLeftAlone(t *testing.T) {
	const none = "Priority=0 MaxWall=-1 MaxTRESPerJob=node=-1 MaxTRESPerUser=cpu=-1,node=-1 MaxJobsPerUser=-1 " +
		"MaxSubmitJobsPerUser=-1"
	for _, c := range []struct {
		name     string
		want     []protocol.QOS
		printed  string
		add      []string
		commands []string
	}{
		{"none", nil, "normal|Normal QOS default\nroots|long runs\n", nil, nil},
		{"one is new", []protocol.QOS{{Name: "short", Priority: 100, Minutes: 10, Nodes: 2, UserCPUs: 64, UserNodes: 4,
			UserJobs: 5, UserSubmitted: 6}}, "normal|Normal QOS default\n", []string{"short"}, []string{
			"modify qos short set Description=cluster-file Flags=DenyOnLimit Priority=100 MaxWall=10 MaxTRESPerJob=node=2 " +
				"MaxTRESPerUser=cpu=64,node=4 MaxJobsPerUser=5 MaxSubmitJobsPerUser=6",
			"modify account aero set qos+=short",
		}},
		{"root had it, and one is gone", []protocol.QOS{{Name: "roots"}}, "normal|Normal QOS default\nroots|long runs\nold|cluster-file\n",
			nil, []string{
				"modify qos roots set Description=cluster-file Flags=DenyOnLimit " + none,
				"modify account aero set qos+=roots",
				"modify account aero set qos-=old",
			}},
		{"jobs that name none are not limited any more", nil, "normal|cluster-file\n", nil,
			[]string{"modify qos normal set Description=normal Flags=-1 " + none}},
	} {
		add, commands := qosChanges("aero", c.want, c.printed)
		if !slices.Equal(add, c.add) || !slices.Equal(commands, c.commands) {
			t.Errorf("%s: %q\n%s", c.name, add, strings.Join(commands, "\n"))
		}
	}
}

func TestQOSAreSetAgainAfterAFailure(t *testing.T) {
	d, config := accountingHead(t, true)
	config.QOS = []protocol.QOS{{Name: "short", Minutes: 10}}
	var ran []string
	broken := "sh"
	d.Control = Control{func(_ context.Context, argv ...string) ([]byte, error) {
		ran = append(ran, strings.Join(argv, " "))
		if argv[0] == broken {
			return nil, errors.New("no")
		}
		return []byte("normal|Normal QOS default\n"), nil
	}}
	begin(t, d, config)
	want := []string{"sacctmgr -iQ load " + membersFile, "sacctmgr -nP show qos format=name,description",
		"sacctmgr -iQ add qos short", "sh -c exec sacctmgr -iQ <" + qosFile}
	for _, fails := range []bool{true, false} {
		ran, d.books.tried = nil, time.Time{}
		if err := d.enrol(t.Context(), loads); (err != nil) != fails || !slices.Equal(ran, want) {
			t.Errorf("%v: %q", err, ran)
		}
		broken = ""
	}
	ran = nil
	if err := d.enrol(t.Context(), loads); err != nil || ran != nil {
		t.Errorf("once more: %v, %q", err, ran)
	}
}
