package images

import (
	"errors"
	"fmt"
	"regexp"
	"time"

	"muster/internal/kit/duration"
)

// Check is one command that proves an image, run inside it.
type Check struct {
	Name string `json:"name" yaml:"name"` // a claim: "munge signs and reads"
	Run  string `json:"run" yaml:"run"`   // for sh -c; must exit 0
	// regular expression that standard output must match, ^ and $ at line ends
	Expect string `json:"expect,omitempty" yaml:"expect"`
	Within string `json:"within,omitempty" yaml:"within"` // the time it may take; default 30s
}

func (c Check) validate() error {
	if c.Name == "" || c.Run == "" {
		return errors.New("a check needs a name and a command to run")
	}
	if _, err := c.pattern(); err != nil {
		return fmt.Errorf("%q: expect: %w", c.Name, err)
	}
	if _, err := c.limit(); err != nil {
		return fmt.Errorf("%q: within: %w", c.Name, err)
	}
	return nil
}

func (c Check) pattern() (*regexp.Regexp, error) { return regexp.Compile("(?m)" + c.Expect) }

func (c Check) limit() (time.Duration, error) {
	if c.Within == "" {
		return 30 * time.Second, nil
	}
	return duration.Within(c.Within, time.Millisecond, 24*time.Hour)
}
