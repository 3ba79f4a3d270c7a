package node

import (
	"context"
	"time"

	"muster/internal/core"
	"muster/internal/kit/wrap"
	"muster/internal/protocol"
)

// TestResult is one test of a node before it was handed over, with what became of it.
type TestResult struct {
	At              time.Time
	MachineID       string
	Machine         string // name
	Class           string
	ComparisonGroup string // of its class, those with the same text are compared
	ClusterID       string
	Cluster         string
	NodeID          string
	Node            string
	Boot            int64
	Image           string
	Result          protocol.TestResult
	Verdict         Verdict
	Text            string
}

// Verdict is what became of a test.
type Verdict string

// The verdicts.
const (
	Passed Verdict = "passed" // the node was handed over
	Again  Verdict = "again"  // slow: it was measured once more
	Slow   Verdict = "slow"   // the node failed
)

// testResultsKept is how many tests of a machine are remembered.
const testResultsKept = 100

// AskTest asks a node for a test of its boot, which a later one has a higher number of; held keeps jobs from it until it
// has passed. Its agent hears of it at once.
func AskTest(ctx context.Context, tx *core.Tx, node string, number int64, held bool) error {
	_, err := tx.Exec(ctx, `UPDATE node SET test = $2, held = $3, news = news + 1 WHERE id = $1`, node, number, core.Flag(held))
	return wrap.Errorf(err, "ask node %s for a test", node)
}

// EndTest notes that no test is asked of a node any more. Only an agent that waits for this hears of it at once.
func EndTest(ctx context.Context, tx *core.Tx, node string) error {
	_, err := tx.Exec(ctx, `UPDATE node SET test = 0, news = news + held, held = 0 WHERE id = $1`, node)
	return wrap.Errorf(err, "end the test of node %s", node)
}

// SaveTestResult remembers a test, now, and forgets the machine's oldest.
func SaveTestResult(ctx context.Context, tx *core.Tx, p TestResult) error {
	_, err := tx.Exec(ctx, `INSERT INTO test_result (at, machine_id, machine, class, comparison_group, cluster_id, cluster, node_id, node, boot,
		number, image, took, results, verdict, text)
		VALUES (now_ms(), $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)`,
		p.MachineID, p.Machine, p.Class, p.ComparisonGroup, p.ClusterID, p.Cluster, p.NodeID, p.Node, p.Boot, p.Result.Number,
		p.Image, p.Result.Took.Microseconds(), core.JSON(p.Result.Measures), string(p.Verdict), p.Text)
	if err == nil {
		_, err = tx.Exec(ctx, `DELETE FROM test_result WHERE machine_id = $1 AND at < COALESCE(
			(SELECT at FROM test_result WHERE machine_id = $1 ORDER BY at DESC LIMIT 1 OFFSET $2), 0)`, p.MachineID, testResultsKept-1)
	}
	return wrap.Errorf(err, "save a test of machine %s", p.Machine)
}

const testResultColumns = `SELECT at, machine_id, machine, class, comparison_group, cluster_id, cluster, node_id, node, boot, number, image,
	took, results, verdict, text FROM test_result `

func scanTestResult(r core.Scanner) (p TestResult, err error) {
	err = r.Scan(core.Time(&p.At), &p.MachineID, &p.Machine, &p.Class, &p.ComparisonGroup, &p.ClusterID, &p.Cluster, &p.NodeID,
		&p.Node, &p.Boot, &p.Result.Number, &p.Image,
		core.Span(&p.Result.Took, time.Microsecond), core.JSON(&p.Result.Measures), &p.Verdict, &p.Text)
	return p, wrap.Errorf(err, "test %d of node %s", p.Result.Number, p.NodeID)
}

// History lists the newest tests that passed on machines of a class that are alike, at most so many.
func History(ctx context.Context, tx *core.Tx, class, alike string, most int) ([]TestResult, error) {
	results, err := core.List(ctx, tx, scanTestResult,
		testResultColumns+`WHERE class = $1 AND comparison_group = $2 AND verdict = 'passed' ORDER BY at DESC, node_id LIMIT $3`, class, alike,
		most)
	return results, wrap.Errorf(err, "list tests of class %s", class)
}

// TestResultsOfBoot lists the tests that a boot of a node has made, the first one first.
func TestResultsOfBoot(ctx context.Context, tx *core.Tx, node string, boot int64) ([]TestResult, error) {
	results, err := core.List(ctx, tx, scanTestResult, testResultColumns+`WHERE node_id = $1 AND boot = $2 ORDER BY number`, node, boot)
	return results, wrap.Errorf(err, "list tests of node %s", node)
}

// SlowInARow counts how often nodes on a machine were slow since one on it passed.
func SlowInARow(ctx context.Context, tx *core.Tx, machine string) (count int, err error) {
	err = tx.Row(ctx, `SELECT COUNT(*) FROM test_result WHERE machine_id = $1 AND verdict = 'slow'
		AND at > (SELECT COALESCE(MAX(at), 0) FROM test_result WHERE machine_id = $1 AND verdict = 'passed')`, machine).Scan(&count)
	return count, wrap.Errorf(err, "count slow tests on machine %s", machine)
}

// TestResultsOf lists the tests on a machine, the newest first.
func TestResultsOf(ctx context.Context, tx *core.Tx, machine string) ([]TestResult, error) {
	results, err := core.List(ctx, tx, scanTestResult, testResultColumns+`WHERE machine_id = $1 ORDER BY at DESC, node_id, number DESC`,
		machine)
	return results, wrap.Errorf(err, "list tests on machine %s", machine)
}

// LastTestResults lists, for every machine that was ever tested, its newest test, by the machine's name.
func LastTestResults(ctx context.Context, tx *core.Tx) ([]TestResult, error) {
	results, err := core.List(ctx, tx, scanTestResult, testResultColumns+`WHERE NOT EXISTS (SELECT 1 FROM test_result later
		WHERE later.machine_id = test_result.machine_id
		AND (later.at, later.node_id, later.number) > (test_result.at, test_result.node_id, test_result.number))
		ORDER BY machine`)
	return results, wrap.Errorf(err, "list the last tests")
}

// OwnNews tells, for heads and for nodes that are tested, how often their agents alone were told something.
func OwnNews(ctx context.Context, tx *core.Tx) (map[string]int64, error) {
	all, err := core.Pairs[string, int64](ctx, tx,
		`SELECT id, news FROM node WHERE phase = 'testing' OR role = 'head' AND phase <> 'gone'`)
	return all, wrap.Errorf(err, "list news of nodes")
}
