package switchtest

import (
	"testing"

	"muster/internal/drivers/drivertest"
)

func TestTheContractTriesAllThatASwitchCan(t *testing.T) { drivertest.Complete(t, parts()) }
