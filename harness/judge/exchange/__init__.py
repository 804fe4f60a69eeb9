"""The exchange of inputs and outputs with a worker, call by call or in bursts, through host memory
or in place on a device, timed by the judge's clock."""
