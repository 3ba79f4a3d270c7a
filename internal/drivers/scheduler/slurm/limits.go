package slurm

import (
	"context"
	"fmt"
	"strconv"
	"strings"
)

// TimeLimit is how long a job may run, from its start on.
type TimeLimit struct {
	Job     int `json:"job"`
	Minutes int `json:"minutes"` // above 0
}

// limitFormat is what squeue prints of each job that runs.
const limitFormat = "%A|%l"

// TimeLimits are those of the jobs that run or are suspended, where they have one.
func (c Control) TimeLimits(ctx context.Context) ([]TimeLimit, error) {
	text, err := c.run(ctx, "list time limits", "squeue", "-h", "-r", "-t", "running,suspended", "-o", limitFormat)
	if err != nil {
		return nil, err
	}
	limits, err := ParseTimeLimits(text)
	if err != nil {
		return nil, fmt.Errorf("slurm: list time limits: %w", err)
	}
	return limits, nil
}

// SetTimeLimit says how long a job may run from its start on, in minutes; 0: for ever. ErrUnknown if it has ended.
func (c Control) SetTimeLimit(ctx context.Context, job, minutes int) error {
	limit := "UNLIMITED"
	if minutes > 0 {
		limit = strconv.Itoa(minutes)
	}
	id := strconv.Itoa(job)
	_, err := c.run(ctx, "limit job "+id, "scontrol", "update", "jobid="+id, "timelimit="+limit)
	if err != nil && strings.Contains(err.Error(), "already completing or completed") {
		return ErrUnknown
	}
	return err
}

// ParseTimeLimits reads what squeue prints in limitFormat.
func ParseTimeLimits(text string) ([]TimeLimit, error) {
	var limits []TimeLimit
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		id, limit, found := strings.Cut(line, "|")
		job, err := strconv.Atoi(id)
		if err != nil || !found {
			return nil, fmt.Errorf("not a line of squeue: %.60q", line)
		}
		if limit == "UNLIMITED" || limit == "NOT_SET" {
			continue
		}
		minutes, err := parseMinutes(limit)
		if err != nil {
			return nil, fmt.Errorf("%w in %.60q", err, line)
		}
		limits = append(limits, TimeLimit{job, minutes})
	}
	return limits, nil
}

// parseMinutes reads days-hours:minutes:seconds, or its end, and rounds up.
func parseMinutes(text string) (int, error) {
	days, clock, found := strings.Cut(text, "-")
	if !found {
		days, clock = "0", text
	}
	seconds, err := strconv.Atoi(days)
	fields := strings.Split(clock, ":")
	if err != nil || seconds < 0 || seconds > 1<<20 || len(fields) < 2 || len(fields) > 3 {
		return 0, fmt.Errorf("%q is no time limit", text)
	}
	if len(fields) == 2 {
		fields = append([]string{"0"}, fields...)
	}
	for i, most := range []int{24, 60, 60} {
		n, err := strconv.Atoi(fields[i])
		if err != nil || n < 0 || n >= most {
			return 0, fmt.Errorf("%q is no time limit", text)
		}
		seconds = seconds*most + n
	}
	if seconds == 0 {
		return 0, fmt.Errorf("%q is no time limit", text)
	}
	return (seconds + 59) / 60, nil
}
