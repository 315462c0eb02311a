"""Planning ahead by run times: when room will be there, and for whom it is kept until then."""
