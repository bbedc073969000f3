# libyoke-comm: the collectives; MPI ends here.
