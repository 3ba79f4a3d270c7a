package serve

import (
	"testing"

	"muster/internal/hostd/hostdtest"
)

func TestMain(m *testing.M) { hostdtest.Main(m) }
