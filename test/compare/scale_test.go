package compare_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"
)

// wholeVariable is set by `make compare`.
const wholeVariable = "MUSTER_COMPARE"

// scale is how much is compared.
type scale struct {
	starts                  []clusterStarts
	programs, order         int   // runs of each program on a node, and the order of HPL
	arrayNodes, arrayJobs   int   // of a cluster, and of an array on it
	arrays                  int   // runs of that
	boots                   int   // of a machine
	services                int   // runs of each boot service
	readers, blob           int   // by HTTP, and bytes that each reads
	rate, seconds, machines int   // leases asked for in a second, for so long, and machines that ask at once
	boot                    int   // bytes by TFTP
	bulk, bulks, logins     int   // bytes of a large file, how often it is carried, and logins
	treeFiles, trees        int   // files of a tree, and how often it is carried
	sessions                int   // held at a time
	listed                  []int // machines of a site
	lists                   int   // how often they are listed
	records, files, rounds  int   // of /home: mebibytes of a large file, small files, and rounds of both
}

// clusterStarts are runs of the start of a cluster.
type clusterStarts struct{ nodes, runs int }

// size is the whole for `make compare`; elsewhere it is the least that gives every row a value, so that no comparison rots.
var size = map[bool]scale{
	true: {
		starts: []clusterStarts{{3, 7}, {50, 3}}, programs: 7, order: 3000, boots: 3,
		arrayNodes: 3, arrayJobs: 60, arrays: 2,
		services: 3, readers: 64, blob: 300 << 20, rate: 20000, seconds: 5, machines: 5000, boot: 16 << 20,
		bulk: 442 << 20, bulks: 5, logins: 15, treeFiles: 5000, trees: 3, sessions: 500,
		listed: []int{1000, 10_000, 100_000}, lists: 5,
		records: 256, files: 2000, rounds: 7,
	},
	false: {
		starts: []clusterStarts{{1, 1}}, programs: 1, order: 500, boots: 1,
		arrayNodes: 1, arrayJobs: 4, arrays: 1,
		services: 1, readers: 4, blob: 8 << 20, rate: 500, seconds: 1, machines: 50, boot: 1 << 20,
		bulk: 8 << 20, bulks: 1, logins: 1, treeFiles: 100, trees: 1, sessions: 50,
		listed: []int{100}, lists: 1,
		records: 8, files: 50, rounds: 1,
	},
}[whole()]

func whole() bool { return os.Getenv(wholeVariable) != "" }

// keepTable prints and writes the whole table. It returns the status to end with.
func keepTable() int {
	if !whole() {
		return 0
	}
	fmt.Print(results.markdown())
	if err := os.WriteFile("../../build/compare.md", []byte(results.markdown()), 0o644); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Println("the table is in build/compare.md")
	return 0
}

// patience bounds what only a failure takes so long.
const patience = 5 * time.Minute

// command is one that ends with its test, or when patience does.
func command(t testing.TB, argv ...string) *exec.Cmd {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	c := exec.CommandContext(ctx, argv[0], argv[1:]...)
	c.Cancel = func() error { return c.Process.Signal(syscall.SIGTERM) }
	c.WaitDelay = 20 * time.Second
	return c
}
