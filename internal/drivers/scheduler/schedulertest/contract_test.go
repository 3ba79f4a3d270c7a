package schedulertest

import (
	"testing"

	"muster/internal/drivers/drivertest"
)

func TestTheContractTriesAllThatASchedulerCan(t *testing.T) { drivertest.Complete(t, parts()) }
