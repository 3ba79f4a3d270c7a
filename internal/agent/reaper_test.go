package agent

const orphanVariable = "MUSTER_TEST_ORPHANS"

func orphanMain() int { return 0 }
