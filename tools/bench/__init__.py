"""What vlmguard costs, measured."""
