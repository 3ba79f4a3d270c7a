/*
 * A plugin of Slurm (SPANK): an MPI step on some of its job's nodes starts, whichever they are.
 *
 * In a step of two nodes, both slurmstepds connect to each other at the same moment, and the one with the higher number goes on.
 * Slurm's PMIx plugin compares the other's number in the job with its own number in the step (pmixp_dconn_require_connect, up to
 * 26.05 at least): in a step without the job's first node, each may leave it to the other, for ever. So that plugin is shown the
 * step's nodes as all that the job has, as Slurm itself does in jobs of several parts. Programs find the job's again.
 */
#include <slurm/spank.h>

SPANK_PLUGIN(muster_pmix_step, 1);

static const char job_nodes[] = "SLURM_JOB_NODELIST";
static char nodes[1 << 16];

/* Runs in slurmstepd before PMIx starts; in srun, which calls it too, there is no environment to be had. */
int slurm_spank_init(spank_t spank, int argc, char **argv)
{
    static char step[sizeof nodes];

    (void)argc;
    (void)argv;
    if (spank_getenv(spank, "SLURM_STEP_NODELIST", step, sizeof step) != ESPANK_SUCCESS ||
        spank_getenv(spank, job_nodes, nodes, sizeof nodes) != ESPANK_SUCCESS ||
        spank_setenv(spank, job_nodes, step, 1) != ESPANK_SUCCESS)
        nodes[0] = '\0';
    return 0;
}

/* Runs in the process of each task, which then becomes the user's program. */
int slurm_spank_task_init(spank_t spank, int argc, char **argv)
{
    (void)argc;
    (void)argv;
    if (nodes[0])
        spank_setenv(spank, job_nodes, nodes, 1);
    return 0;
}
