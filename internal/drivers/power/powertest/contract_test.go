package powertest

import (
	"testing"

	"muster/internal/drivers/drivertest"
)

func TestTheContractTriesAllThatAPowerControlCan(t *testing.T) { drivertest.Complete(t, parts()) }
