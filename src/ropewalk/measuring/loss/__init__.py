"""Loss by position and copy loss by distance: hundreds of paired observations from one prefill."""
