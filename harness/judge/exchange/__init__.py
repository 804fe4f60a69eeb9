"""Inputs to a worker and outputs back, call by call or in bursts, through host memory or from where
they lie on a device, with the judge's clock around them."""
